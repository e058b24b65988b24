/* Which kernel family and tile a variant gets, and why not. Called by
 * kernel.c before a unit is emitted; pure. */
#ifndef FACC_SELECT_H
#define FACC_SELECT_H

#include <stdbool.h>

#include "compiler/emit/emit.h"
#include "compiler/support/diag.h"
#include "runtime/facc.h"

/* Checks the variant (dtype, out_dtype, head dims) against what the families
 * can do on `arch` (80 86 89 90 100 120, already resolved: never 0) and fills
 * *out, shared_bytes included. mod_cost is eval_plan_cost of the program,
 * has_mask whether it masks cells (a block mask does, too). False: *d has
 * DIAG_ARGUMENT or DIAG_UNSUPPORTED with the reason and the way out. */
bool select_config(const facc_variant *v, int arch, int mod_cost, bool has_mask,
                   struct unit_config *out, struct diag *d);

#endif
