/* Which kernel families and tiles a variant gets, and why not. Called by
 * kernel.c before a unit is emitted; pure. */
#ifndef FACC_SELECT_H
#define FACC_SELECT_H

#include <stdbool.h>
#include <string.h>

#include "compiler/emit/emit.h"
#include "compiler/support/diag.h"
#include "runtime/facc.h"

enum { SELECT_MAX_FAMILIES = 2 };

/* The families of a variant (FACC_FAMILY_SM80, _SM90), the preferred one first;
 * a second one takes the tensors that the first cannot (FACC_LAYOUT_ANY). How
 * many; 0: *d has DIAG_ARGUMENT or DIAG_UNSUPPORTED. */
int select_families(const facc_variant *v, int arch,
                    int out[SELECT_MAX_FAMILIES], struct diag *d);

/* Checks the variant (dtype, out_dtype, head dims) against what the families
 * can do on `arch` (80 86 89 90 100 120, already resolved: never 0) and fills
 * *out for one of its families, shared_bytes included. cell_loads is
 * that of the program, has_mask whether it masks cells (a block mask
 * does, too). dot: a product whose columns join Q K^T, or NULL. False: *d has
 * DIAG_ARGUMENT or DIAG_UNSUPPORTED with the reason and the way out. */
bool select_config(const facc_variant *v, int arch, int family, int cell_loads,
                   bool has_mask, const struct dot_term *dot,
                   struct unit_config *out, struct diag *d);

/* Where a configuration's kernel can copy a captured tensor's tiles (struct
 * plane) of elements of so many bytes: the tile that has room for it, and
 * plane_bytes. 0 bytes, or none has: as it is. */
void select_plane(struct unit_config *c, int bytes);

/* Whether it is of family sm90. */
static inline bool select_is_sm90(const struct unit_config *c)
{
    return strcmp(c->family, "sm90") == 0;
}

#endif
