/* Vectors in random programs: slices, which are tensors without their last
 * index, and lists; facc.dot and the reductions of both. */
#include "tests/fuzz/modgen_expr.h"

/* A tensor of the kind whose last dimension is a number: `extent`, or any up
 * to 16 if that is 0. -1: none. */
static int rows_of(struct writer *w, int kind, int64_t extent)
{
    int have[MODGEN_MOST_TENSORS], n = 0;
    for (int i = 0; i < w->out->n_tensors; i++) {
        const struct modgen_tensor *t = &w->out->tensor[i];
        if (modgen_kind(t) != kind || t->rank == 0 ||
            t->kind[t->rank - 1] != IR_DIM_FIXED)
            continue;
        const int64_t last = t->extent[t->rank - 1];
        if (extent ? last == extent : last <= 16)
            have[n++] = i;
    }
    if (n && (!modgen_has_room(w) || modgen_pick(w, 2)))
        return have[modgen_pick(w, (unsigned)n)];
    if (!modgen_has_room(w))
        return -1;
    return modgen_new_tensor(w, kind, extent ? extent : 4);
}

static void put_slice(struct writer *w, int depth, int tensor)
{
    const struct modgen_tensor *t = &w->out->tensor[tensor];
    modgen_put(w, "%s", t->name);
    if (t->rank > 1)
        modgen_indices(w, depth, tensor, 0, t->rank - 1);
}

static double dot_of_lists(struct writer *w, int depth)
{
    double bound = 0, x[2];
    modgen_put(w, "facc.dot({");
    for (int k = 0; k < 2; k++) {
        modgen_put(w, k ? ", " : "");
        x[k] = modgen_float(w, depth);
    }
    modgen_put(w, "}, {");
    for (int k = 0; k < 2; k++) {
        modgen_put(w, k ? ", " : "");
        bound += x[k] * modgen_float(w, depth);
    }
    modgen_put(w, "})");
    return bound;
}

double modgen_dot(struct writer *w, int depth)
{
    static const uint8_t extents[] = {4, 1, 2, 8, 16, 7};
    const int64_t n = w->fixed ? 8 : extents[modgen_pick(w, 6)];
    const int x = modgen_pick(w, 4) == 3 ? -1 : rows_of(w, 2, n);
    const int y = x < 0 ? -1 : rows_of(w, 2, n);
    if (y < 0)
        return dot_of_lists(w, depth);
    modgen_put(w, "facc.dot(");
    put_slice(w, depth, x);
    modgen_put(w, ", ");
    put_slice(w, depth, y);
    modgen_put(w, ")");
    return 16 * (double)n;
}

/* The sum, greatest or least of a slice, or of a list. */
struct range modgen_vector(struct writer *w, int depth, bool floats)
{
    static const char *const reduction[] = {"sum", "max", "min"};
    const unsigned what = modgen_pick(w, 3);
    const int t = modgen_pick(w, 2) ? rows_of(w, floats ? 2 : 1, 0) : -1;
    /* sums of i64 elements without a limit may leave 64 bits */
    const bool wide = t >= 0 && w->out->tensor[t].dtype == DTYPE_I64;
    struct range r = {200, 0x1p31};
    int n = 2;
    if (wide)
        modgen_put(w, "(facc.%s(", reduction[what ? what : 1]);
    else
        modgen_put(w, "facc.%s(", reduction[what]);
    if (t >= 0) {
        put_slice(w, depth, t);
        n = 16;
    } else {
        modgen_put(w, "{");
        r = modgen_number(w, depth, floats);
        modgen_put(w, ", ");
        r = modgen_larger(r, modgen_number(w, depth, floats));
        modgen_put(w, "}");
    }
    modgen_put(w, wide ? ") %% 4096)" : ")");
    if (wide)
        return modgen_up_to(4096);
    if (what == 0) {
        r.value *= n;
        r.possible *= n;
    }
    return r;
}

/* Whether a slice of booleans has a true one, or only such. */
bool modgen_any_slice(struct writer *w, int depth)
{
    const int t = rows_of(w, 0, 0);
    if (t < 0)
        return false;
    w->forks--;
    modgen_put(w, "facc.%s(", modgen_pick(w, 2) ? "any" : "all");
    put_slice(w, depth, t);
    modgen_put(w, ")");
    return true;
}
