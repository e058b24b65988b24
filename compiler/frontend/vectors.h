/* Lists and slices of captured tensors as small vectors. */
#ifndef FACC_VECTORS_H
#define FACC_VECTORS_H

#include "compiler/frontend/trace.h"

/* A Lua list, or a captured tensor that lacks indices. */
bool value_is_vector(lua_State *L, int i);
/* Of the vector in argument 1: its sum, or largest or smallest element. */
int l_reduce_vector(lua_State *L, bool max, bool sum, const char *what);
int l_any_all_vector(lua_State *L, bool any, const char *what);
void l_open_vectors(lua_State *L, int facc);

#endif
