/* Token rewriting: a == b becomes a > __eq | b, a ~= b becomes a > __ne | b,
 * t[e] becomes t[__k(e)], and x in a condition (if x then, x and y, x or y,
 * not x, while x do, until x) becomes __c(x), where x is a name or parentheses
 * and what is indexed and called after it; before "or", where the number of
 * `c and x or y` is one, it is __c(x,0). Lua asks no metamethod for ==
 * between a table or userdata and a number, gives nil for t[userdata], and
 * takes every userdata for true; after the rewriting all three can be seen. '>'
 * has the level and associativity of '==', and '|' is the lowest operator above
 * it, so Lua's own parser still finds the same operands. Lines stay where they
 * are. */
#ifndef FACC_REWRITE_H
#define FACC_REWRITE_H

#include <stdbool.h>
#include <stddef.h>

#include "compiler/support/arena.h"

/* The chunk takes the two comparison sentinels, the key function and the
 * condition function. */
#define REWRITE_HEAD "local __eq,__ne,__k,__c=...;"

struct rewritten {
    char *text; /* arena; NULL: memory is out */
    size_t size;
    int reserved_line; /* nonzero: the line that uses one of these names */
};

/* text must be syntactically valid Lua (compile it as it is first, so that
 * errors speak of the user's own text). */
struct rewritten rewrite_source(struct arena *a, const char *text, size_t size);

#endif
