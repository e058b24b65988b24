/* Token rewriting: a == b becomes a > __eq | b, a ~= b becomes a > __ne | b,
 * and t[e] becomes t[__k(e)]. Lua asks no metamethod for == between a table
 * or userdata and a number, and gives nil for t[userdata]; after the
 * rewriting both can be seen. '>' has the level and associativity of '==',
 * and '|' is the lowest operator above it, so Lua's own parser still finds
 * the same operands. Lines stay where they are. */
#ifndef FACC_REWRITE_H
#define FACC_REWRITE_H

#include <stdbool.h>
#include <stddef.h>

#include "compiler/support/arena.h"

/* The chunk takes the two comparison sentinels and the key function. */
#define REWRITE_HEAD "local __eq,__ne,__k=...;"

struct rewritten {
    char *text; /* arena; NULL: memory is out */
    size_t size;
    int reserved_line; /* nonzero: the line that uses __eq, __ne or __k */
};

/* text must be syntactically valid Lua (compile it as it is first, so that
 * errors speak of the user's own text). */
struct rewritten rewrite_source(struct arena *a, const char *text, size_t size);

#endif
