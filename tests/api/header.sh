#!/bin/sh
# The public header by itself: as strict C11 and as C++17, each also run; and
# its parts by themselves.
set -eu
cd "$(dirname "$0")/../.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

${CC:-cc} -std=c11 -pedantic -Wall -Wextra -Werror -Wshadow -Wconversion \
    -Wstrict-prototypes -Wundef -Wwrite-strings \
    -I. tests/api/test_facc_h.c -o "$dir/c"
"$dir/c"
for f in runtime/facc_*.h; do # as C, and if there is a compiler as C++
    echo "#include \"$f\"" >"$dir/part.c"
    ${CC:-cc} -std=c11 -pedantic -Wall -Wextra -Werror -Wundef -I. -fsyntax-only "$dir/part.c"
    ! command -v "${CXX:-c++}" >/dev/null ||
        ${CXX:-c++} -std=c++17 -pedantic -Wall -Wextra -Werror -Wundef -I. -fsyntax-only -x c++ "$dir/part.c"
done
if ! command -v "${CXX:-c++}" >/dev/null; then
    echo "no C++ compiler: the C++ half is skipped"
    exit 0
fi
${CXX:-c++} -std=c++17 -pedantic -Wall -Wextra -Werror -Wshadow -Wconversion \
    -Wundef -I. tests/api/test_facc_h.cpp -o "$dir/cpp"
"$dir/cpp"
echo 'extern "C" {
#include "runtime/facc.h"
}
int main() { const facc_args a = FACC_ARGS_INIT; return a.struct_size != sizeof a; }' >"$dir/within.cpp"
${CXX:-c++} -std=c++11 -pedantic -Wall -Wextra -Werror -I. "$dir/within.cpp" -o "$dir/within"
"$dir/within"
echo "facc.h and its parts compile as C11 and C++17"
