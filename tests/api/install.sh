#!/bin/sh
# usage: install.sh BUILD-FOLDER (with FACC_BUILD_CLI, without sanitizers)
# What `cmake --install` gives, moved to a path with a space: files, versions,
# symbols, man page; examples/c built against it by CMake and by pkg-config,
# shared and static, and run. Without a GPU those that launch are also run on a
# driver that does nothing (fake_cuda.c): all their calls must succeed, and
# only the numbers be wrong.
set -eu
cd "$(dirname "$0")/../.."
build=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cc=${CC:-cc}
# Those of the machine (a FACC_CACHE_DIR of the tests' own stays).
unset LD_LIBRARY_PATH PKG_CONFIG_PATH || true

fail() { echo "install.sh: $*" >&2; exit 1; }
quietly() { "$@" >"$dir/log" 2>&1 || { cat "$dir/log" >&2; fail "failed: $*"; }; }

quietly cmake --install "$build" --prefix "$dir/first"
mv "$dir/first" "$dir/a place"
prefix="$dir/a place"
libdir=$(dirname "$(find "$prefix" -name libfacc.so)")
version=$(sed -n 's/^#define FACC_VERSION "\(.*\)"/\1/p' runtime/facc.h)

# --- files, versions, symbols ---
for f in "$libdir/libfacc.so.$version" "$libdir/libfacc.a" "$prefix/include/facc.h" \
         "$libdir/pkgconfig/facc.pc" "$libdir/cmake/facc/faccConfig.cmake" \
         "$prefix/share/man/man1/facc.1" "$prefix/bin/facc"; do
    [ -s "$f" ] || fail "there is no $f"
done
[ "$(readlink "$libdir/libfacc.so")" = "libfacc.so.${version%%.*}" ] || fail "libfacc.so is no link to its soname"
readelf -d "$libdir/libfacc.so" | grep -q "SONAME.*\[libfacc.so.${version%%.*}\]" || fail "wrong soname"
readelf -d "$libdir/libfacc.so" | grep -q 'R.*PATH' && fail "the library has a run path"
nm -D "$libdir/libfacc.so" | grep -q ' facc_version@@FACC_0$' || fail "symbols have no version"
sh tests/api/symbols.sh "$libdir/libfacc.so"
sh tests/api/symbols.sh "$libdir/libfacc.a"
for f in runtime/facc.h runtime/facc_*.h; do
    cmp "$f" "$prefix/include/${f#runtime/}"
done

# --- man page, command line ---
[ "$("$prefix/bin/facc" --version)" = "facc $version" ] || fail "the CLI does not run"
"$prefix/bin/facc" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p' >"$dir/commands"
[ -s "$dir/commands" ] || fail "no commands in --help"
while read -r command; do
    grep -q "^\.SS facc $command\$" "$prefix/share/man/man1/facc.1" || fail "man page: no $command"
    "$prefix/bin/facc" "$command" --help | sed "s/'/\\\\(aq/g" | grep -o -e '--[a-z-]*[a-z]' | sed 's/-/\\-/g' | sort -u |
        while read -r option; do
            grep -qF -e "$option" "$prefix/share/man/man1/facc.1" || fail "man page: no $option"
        done
done <"$dir/commands"
grep -o '^| `FACC_[A-Z_]*' README.md | grep -o 'FACC_[A-Z_]*' | grep -v FACC_LIBRARY >"$dir/variables"
[ -s "$dir/variables" ] || fail "no variables in README.md"
while read -r variable; do # FACC_LIBRARY is Python's
    grep -qF "$variable" "$prefix/share/man/man1/facc.1" || fail "man page: no $variable"
done <"$dir/variables"
if command -v groff >/dev/null; then
    groff -man -Tutf8 -ww -z "$prefix/share/man/man1/facc.1" 2>"$dir/groff" || true
    [ ! -s "$dir/groff" ] || { cat "$dir/groff"; fail "groff complains"; }
fi

# --- embedding ---
warn="-std=c11 -D_POSIX_C_SOURCE=200809L -pedantic -Wall -Wextra -Werror -Wshadow -Wconversion"
quietly cmake -S examples/c -B "$dir/cmake" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_FLAGS="$warn"
quietly cmake --build "$dir/cmake"
[ -x "$dir/cmake/compile_only_static" ] || fail "no facc::static"

export PKG_CONFIG_PATH="$libdir/pkgconfig"
[ "$(pkg-config --modversion facc)" = "$version" ] || fail "facc.pc: version"
mkdir "$dir/pc"
for name in launch capture compile_only; do
    eval "set -- $(pkg-config --cflags --libs facc)"
    quietly $cc $warn "examples/c/$name.c" -o "$dir/pc/$name" "$@" -Wl,-rpath,"$libdir" -ldl -lm
    # Where libfacc.a is the only one, -lfacc is the archive.
    mkdir -p "$dir/static" && cp "$libdir/libfacc.a" "$dir/static"
    eval "set -- -L'$dir/static' $(pkg-config --static --cflags --libs facc)"
    quietly $cc $warn "examples/c/$name.c" -o "$dir/pc/$name-static" "$@" -lm
    ! readelf -d "$dir/pc/$name-static" | grep -q 'NEEDED.*libfacc' || fail "$name-static needs libfacc.so"
done

# run WANTED-CODE COMMAND...
run() {
    wanted=$1
    shift
    code=0
    "$@" >"$dir/out" 2>&1 || code=$?
    [ "$code" = "$wanted" ] || { cat "$dir/out"; fail "$1 ended with $code, not $wanted"; }
}

found=0
"$prefix/bin/facc" doctor --json | grep -q '"nvrtc_found":[[:space:]]*true' || found=77
export FACC_CACHE_DIR="$dir/cache"
run $found "$dir/cmake/compile_only" examples/causal.lua 80
if [ $found = 0 ]; then
    grep -q 'from nvrtc' "$dir/out" || fail "compile_only compiled nothing"
    for p in "$dir/cmake/compile_only_static" "$dir/pc/compile_only" "$dir/pc/compile_only-static"; do
        FACC_NVRTC=/nowhere run 0 "$p" examples/causal.lua 80
        grep -q 'from disk' "$dir/out" || fail "$p: not from the cache"
    done
fi

gpu=77
"$prefix/bin/facc" doctor --json | grep -q '"device_count":[[:space:]]*[1-9]' && gpu=0
for p in cmake pc; do
    run $gpu "$dir/$p/launch"
    run $gpu "$dir/$p/capture"
done
quietly $cc -shared -fPIC -I. runtime/python/tests/fake_cuda.c -o "$dir/libcuda.so.1"
export LD_LIBRARY_PATH="$dir" FACC_NVRTC="$dir/libcuda.so.1" FACC_CACHE=off
for name in cmake/launch cmake/capture pc/launch-static; do
    run 1 "$dir/$name"
    grep -q 'largest difference from the CPU: [0-9]' "$dir/out" || { cat "$dir/out"; fail "$name did not come to its end"; }
done
echo "installed $version: files, symbols, man page, examples/c by CMake and pkg-config"
