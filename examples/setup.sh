#!/bin/sh
# Installs what building and running facc needs and is missing, on Debian and
# its kin; says what it does; says nothing when nothing is missing. Used by
# quickstart.sh and tests/run.sh. Writes build/setup.env: where NVRTC is, for
# the shell that sources it.
#
# Packages come through apt (root or sudo); NVRTC, where there is no CUDA
# toolkit, and NumPy come from PyPI into build/venv.
set -eu
cd "$(dirname "$0")/.."

packages="cmake gcc g++ libc6-dev make pkg-config liblua5.4-dev libxxhash-dev check
libsubunit-dev libpng-dev libcjson-dev python3 python3-venv"

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: error: %s\n' "$*" >&2; exit 1; }

installed() {
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

apt_missing() {
    command -v dpkg-query >/dev/null ||
        fail "this is no Debian; install the likes of:" $packages
    missing=
    for p in $packages; do
        # pkgconf took pkg-config's place in later releases.
        installed "$p" || { [ "$p" = pkg-config ] && installed pkgconf; } ||
            missing="$missing $p"
    done
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" = 0 ]; then root=
    elif command -v sudo >/dev/null; then root=sudo
    else fail "needs root or sudo; run as root: apt-get install$missing"
    fi
    say "installing$missing"
    mkdir -p build
    {
        $root env DEBIAN_FRONTEND=noninteractive apt-get -q update &&
        $root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends $missing
    } >build/setup-apt.log 2>&1 || {
        tail -n 20 build/setup-apt.log >&2
        fail "apt-get failed; the whole output is in build/setup-apt.log"
    }
}

# Prints a libnvrtc.so that facc finds by itself (a toolkit's), or fails.
toolkit_nvrtc() {
    for f in "${FACC_NVRTC:-}" "${CUDA_HOME:-/usr/local/cuda}"/lib64/libnvrtc.so.1[2-9] \
             /usr/local/cuda*/lib64/libnvrtc.so.1[2-9] \
             /usr/lib/*-linux-gnu/libnvrtc.so.1[2-9]; do
        [ -e "$f" ] && { printf '%s\n' "$f"; return 0; }
    done
    return 1
}

venv_nvrtc() {
    for f in build/venv/lib/python3*/site-packages/nvidia/cu13/lib/libnvrtc.so.13 \
             build/venv/lib/python3*/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.13; do
        [ -e "$f" ] && { printf '%s/%s\n' "$PWD" "$f"; return 0; }
    done
    return 1
}

pip_install() {
    say "installing $* into build/venv"
    build/venv/bin/python -m pip install --quiet --disable-pip-version-check "$@" ||
        fail "pip could not install $*"
}

python_missing() {
    # A venv is tied to its path: one that was moved or copied is made anew.
    if ! build/venv/bin/python -m pip --version >/dev/null 2>&1; then
        say "making a Python environment in build/venv"
        rm -rf build/venv
        python3 -m venv build/venv || fail "python3 -m venv failed"
    fi
    build/venv/bin/python -c 'import numpy' 2>/dev/null || pip_install numpy
}

nvrtc_missing() {
    if path=$(toolkit_nvrtc); then :
    elif path=$(venv_nvrtc); then :
    else
        pip_install 'nvidia-cuda-nvrtc==13.0.*'
        path=$(venv_nvrtc) || fail "the NVRTC package holds no libnvrtc.so.13 where expected"
    fi
    printf "FACC_NVRTC='%s'\nexport FACC_NVRTC\n" "$path" >build/setup.env
}

apt_missing
mkdir -p build
python_missing
nvrtc_missing
