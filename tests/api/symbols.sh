#!/bin/sh
# usage: symbols.sh libfacc.so | libfacc.a
# The library exports what facc.h and its parts declare, all of it, and nothing
# else; the archive has no other global names.
set -eu
cd "$(dirname "$0")/../.."
lib=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

case $lib in
*.a) nm -g --defined-only "$lib" | grep . | grep -v ':$' ;;
*) nm -D --defined-only "$lib" ;;
esac | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' |
    sort -u >"$dir/exported"
# Declarations may break after FACC_API; a name is followed by "(".
cat runtime/facc.h runtime/facc_*.h | grep -v '^#' | tr '\n' ' ' | sed 's|/\*[^*]*\*\{1,\}\([^/*][^*]*\*\{1,\}\)*/||g' |
    grep -o 'FACC_API [^;]*;' | sed 's/(.*//; s/.*[ *]//' |
    sort -u >"$dir/declared"
[ -s "$dir/declared" ] || { echo "no declarations found in facc.h"; exit 1; }
if ! diff -u "$dir/declared" "$dir/exported"; then
    echo "above: - declared but not exported, + exported but not declared"
    exit 1
fi
echo "$(wc -l <"$dir/exported") symbols, all declared in facc.h"
