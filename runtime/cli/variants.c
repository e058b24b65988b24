/* Lists on the command line ("64,128") to variants. Called by compile, emit
 * and explain. */
#include "runtime/cli/variants.h"

#include <stdio.h>
#include <string.h>

/* Splits a comma list; EXIT_OK or EXIT_USAGE after a message. */
static int split(const struct command *c, const char *text, const char *name,
                 bool (*parse)(const char *item, int *out), int *out, int *n)
{
    const char *rest = text, *next;
    char item[CLI_ITEM];
    *n = 0;
    if (!text[0])
        return cli_usage(c, "--%s is empty", name);
    while ((next = cli_next_item(&rest, item))) {
        if (*n == MAX_LIST)
            return cli_usage(c, "more than %d values for --%s", MAX_LIST, name);
        if (!parse(next, &out[(*n)++]))
            return cli_usage(c, "--%s: '%s' is not understood", name, next);
    }
    return EXIT_OK;
}

static bool item_dtype(const char *item, int *out)
{
    facc_dtype d;
    if (!cli_parse_dtype(item, &d))
        return false;
    *out = (int)d;
    return true;
}

static bool item_arch(const char *item, int *out)
{
    int64_t v;
    if (!strncmp(item, "sm_", 3))
        item += 3;
    if (!cli_parse_int(item, &v) || v < 1 || v > 999)
        return false;
    *out = (int)v;
    return true;
}

/* "128" or "192/128" as head_dim << 16 | head_dim_v. */
static bool item_head_dim(const char *item, int *out)
{
    int64_t d, dv;
    char copy[CLI_ITEM];
    snprintf(copy, sizeof copy, "%s", item);
    char *slash = strchr(copy, '/');
    if (slash)
        *slash++ = 0;
    if (!cli_parse_int(copy, &d) || d < 1 || d > 4096)
        return false;
    dv = d;
    if (slash && (!cli_parse_int(slash, &dv) || dv < 1 || dv > 4096))
        return false;
    *out = (int)(d << 16 | dv);
    return true;
}

int variants_parse(const struct command *c, const struct options *o,
                   struct variant_lists *l)
{
    int rc = split(c, o->dtypes ? o->dtypes : "bf16", "dtype", item_dtype,
                   l->dtype, &l->n_dtype);
    if (!rc)
        rc = split(c, o->head_dims ? o->head_dims : "128", "head-dim",
                   item_head_dim, l->head_dim, &l->n_head_dim);
    if (!rc)
        rc = split(c, o->arch ? o->arch : "90", "arch", item_arch, l->arch,
                   &l->n_arch);
    return rc;
}

facc_variant variants_make(const struct options *o,
                           const struct variant_lists *l, int dtype,
                           int head_dim, int arch)
{
    facc_variant v = FACC_VARIANT_INIT;
    v.dtype = (facc_dtype)l->dtype[dtype];
    v.out_dtype = o->out_dtype;
    v.head_dim = l->head_dim[head_dim] >> 16;
    v.head_dim_v = l->head_dim[head_dim] & 0xffff;
    v.arch = l->arch[arch];
    v.check_bounds = o->check_bounds;
    v.packed = o->packed;
    v.block_mask = o->block_mask;
    v.sinks = o->with_sinks;
    v.centred_v = o->centre_v;
    v.transposes_v = o->transpose_v;
    v.exact_peaks = o->exact_peaks;
    v.block_scales = o->per && cli_looks_int(o->per);
    v.dropout = o->with_dropout;
    v.layout = o->layout;
    v.family = o->family;
    return v;
}

int variants_single(const struct command *c, const struct options *o,
                    facc_variant *out)
{
    struct variant_lists l;
    int rc = variants_parse(c, o, &l);
    if (rc)
        return rc;
    if (l.n_dtype > 1 || l.n_head_dim > 1 || l.n_arch > 1)
        return cli_usage(c, "lists are for facc compile: give one --dtype, "
                            "one --head-dim and one --arch");
    *out = variants_make(o, &l, 0, 0, 0);
    return EXIT_OK;
}
