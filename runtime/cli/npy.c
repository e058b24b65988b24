/* NumPy's .npy files, versions 1 to 3, C order, little endian
 * (numpy.lib.format). Reads into freshly allocated arrays; writes any
 * strides. */
#include "runtime/cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const unsigned char magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

static const struct npy_type {
    const char *descr;
    facc_dtype dtype;
} npy_types[] =
    {
        {"<f4", FACC_F32}, {"<f2", FACC_F16}, {"<f8", FACC_F64},
        {"|i1", FACC_I8},  {"|u1", FACC_U8},  {"<i2", FACC_I16},
        {"<i4", FACC_I32}, {"<i8", FACC_I64}, {"|b1", FACC_BOOL},
        {"<u2", FACC_I16}, /* raw 16-bit patterns, named by ":bf16" */
};
enum { N_NPY_TYPES = sizeof npy_types / sizeof npy_types[0] };

static bool fail(char *why, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static bool fail(char *why, size_t size, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, size, fmt, ap);
    va_end(ap);
    return false;
}

/* --- the header: a dict of three entries, in any order ------------------ */

struct header {
    char descr[16];
    bool fortran;
    int rank;
    int64_t shape[FACC_MAX_DIMS];
    const char *wrong; /* what, once parsing failed; else NULL */
};

/* The next character after white space, taken if it is c. */
static bool take(const char **p, char c)
{
    *p += strspn(*p, " \t\r\n");
    if (**p != c)
        return false;
    ++*p;
    return true;
}

static bool take_string(const char **p, char *to, size_t size)
{
    char quote = take(p, '\'') ? '\'' : '"';
    if (quote == '"' && !take(p, '"'))
        return false;
    const char *end = strchr(*p, quote);
    size_t n = end ? (size_t)(end - *p) : size;
    if (n >= size || memchr(*p, '\\', n))
        return false;
    memcpy(to, *p, n);
    to[n] = 0;
    *p = end + 1;
    return true;
}

static bool take_bool(const char **p, bool *out)
{
    *p += strspn(*p, " \t\r\n");
    size_t n = strspn(*p, "TrueFals");
    *out = n == 4 && !strncmp(*p, "True", 4);
    bool ok = *out || (n == 5 && !strncmp(*p, "False", 5));
    *p += n;
    return ok;
}

/* Python 2 wrote 8L. */
static bool take_extent(const char **p, struct header *h, int64_t *out)
{
    *p += strspn(*p, " \t\r\n");
    size_t n = strspn(*p, "0123456789");
    if (n > 15)
        h->wrong = "the shape is too large";
    if (n == 0 || n > 15)
        return false;
    *out = 0;
    for (; n > 0; n--)
        *out = *out * 10 + (*(*p)++ - '0');
    *p += **p == 'L';
    return true;
}

static bool take_shape(const char **p, struct header *h)
{
    bool comma = true;
    if (!take(p, '('))
        return false;
    memset(h->shape, 0, sizeof h->shape); /* a dict's last entry counts */
    for (h->rank = 0; !take(p, ')'); h->rank++) {
        if (h->rank == FACC_MAX_DIMS) {
            h->wrong = "there are more than 5 dimensions";
            return false;
        }
        if (!comma || !take_extent(p, h, &h->shape[h->rank]))
            return false;
        comma = take(p, ',');
    }
    return h->rank != 1 || comma; /* (8) is no tuple, (8,) is one */
}

static bool take_entry(const char **p, struct header *h, unsigned *seen)
{
    char key[16];
    if (!take_string(p, key, sizeof key) || !take(p, ':'))
        return false;
    if (!strcmp(key, "descr")) {
        *seen |= 1;
        h->wrong = "only plain element types are read (no structured arrays)";
        if (!take_string(p, h->descr, sizeof h->descr))
            return false;
        h->wrong = NULL;
        return true;
    }
    if (!strcmp(key, "fortran_order")) {
        *seen |= 2;
        return take_bool(p, &h->fortran);
    }
    *seen |= strcmp(key, "shape") ? 8 : 4;
    return !strcmp(key, "shape") && take_shape(p, h);
}

static bool parse_header(const char *path, const char *text, struct header *h,
                         char *why, size_t size)
{
    const char *p = text;
    unsigned seen = 0;
    *h = (struct header){.wrong = NULL};
    bool ok = take(&p, '{');
    while (ok && !take(&p, '}')) {
        ok = take_entry(&p, h, &seen);
        if (ok && !take(&p, ',') && *p != '}')
            ok = false;
    }
    if (ok && seen == 7 && take(&p, '\0'))
        return true;
    return fail(why, size, "%s: %s", path,
                h->wrong ? h->wrong : "the header is not readable");
}

static bool find_type(const char *path, const char *descr, facc_dtype raw,
                      facc_dtype *dtype, char *why, size_t size)
{
    for (int i = 0; i < N_NPY_TYPES; i++)
        if (!strcmp(descr, npy_types[i].descr)) {
            *dtype = npy_types[i].dtype;
            bool is_u16 = !strcmp(descr, "<u2");
            if (!raw && !is_u16)
                return true;
            if (!raw)
                return fail(why, size,
                            "%s: 16-bit patterns: say what they are, "
                            "%s:bf16 or %s:f16",
                            path, path, path);
            if (facc_dtype_size(raw) != facc_dtype_size(*dtype))
                return fail(why, size, "%s: elements of %zu bytes are not %s",
                            path, facc_dtype_size(*dtype),
                            facc_dtype_name(raw));
            *dtype = raw;
            return true;
        }
    return fail(why, size,
                "%s: element type '%s' is not read; convert it with NumPy "
                "(float32, float16, int8/16/32/64, uint8, bool; little "
                "endian)",
                path, descr);
}

static bool read_header(const char *path, FILE *f, char **header, char *why,
                        size_t size)
{
    unsigned char head[12];
    size_t n = 0;
    if (fread(head, 1, 8, f) != 8 || memcmp(head, magic, sizeof magic) != 0)
        return fail(why, size, "%s: not a .npy file", path);
    size_t width = head[6] == 1 ? 2 : 4;
    if (head[6] < 1 || head[6] > 3)
        return fail(why, size, "%s: .npy version %d is not known", path,
                    head[6]);
    if (fread(head, 1, width, f) != width)
        return fail(why, size, "%s: truncated in the header", path);
    for (size_t i = width; i-- > 0;)
        n = n << 8 | head[i];
    if (n > 1u << 20)
        return fail(why, size, "%s: the header claims %zu bytes", path, n);
    *header = cli_alloc(n + 1);
    if (fread(*header, 1, n, f) != n)
        return fail(why, size, "%s: truncated in the header", path);
    return true;
}

static bool set_layout(const char *path, struct array *out, char *why,
                       size_t size)
{
    facc_tensor *t = &out->t;
    int64_t n = 1;
    for (int d = t->rank; d-- > 0;) {
        t->stride[d] = n;
        if (t->shape[d] > 1LL << 40 ||
            (t->shape[d] && n > (1LL << 46) / t->shape[d]))
            return fail(why, size, "%s: the shape is too large", path);
        n *= t->shape[d];
    }
    out->count = (size_t)n;
    return true;
}

/* The file's size says whether the data is all there, before memory is
 * taken for it. */
static bool check_length(const char *path, FILE *f, size_t bytes, char *why,
                         size_t size)
{
    long at = ftell(f);
    if (at < 0 || fseek(f, 0, SEEK_END))
        return fail(why, size, "%s: %s", path, strerror(errno));
    long end = ftell(f);
    if (end < 0 || fseek(f, at, SEEK_SET))
        return fail(why, size, "%s: %s", path, strerror(errno));
    if ((size_t)(end - at) < bytes)
        return fail(why, size,
                    "%s: truncated: the shape needs %zu bytes of data, the "
                    "file has %zu",
                    path, bytes, (size_t)(end - at));
    return true;
}

bool npy_read(const char *path, facc_dtype raw, struct array *out, char *why,
              size_t size)
{
    *out = (struct array){.count = 0};
    FILE *f = fopen(path, "rb");
    if (!f)
        return fail(why, size, "%s: %s", path, strerror(errno));
    char *text = NULL;
    struct header h;
    bool ok = read_header(path, f, &text, why, size) &&
              parse_header(path, text, &h, why, size) &&
              find_type(path, h.descr, raw, &out->t.dtype, why, size);
    if (ok && h.fortran)
        ok = fail(why, size,
                  "%s: the array is in Fortran order; save "
                  "numpy.ascontiguousarray(a)",
                  path);
    if (ok) {
        out->t.rank = h.rank;
        memcpy(out->t.shape, h.shape, sizeof out->t.shape);
        ok = set_layout(path, out, why, size);
    }
    size_t bytes = ok ? out->count * facc_dtype_size(out->t.dtype) : 0;
    if (ok && check_length(path, f, bytes, why, size)) {
        out->t.data = cli_alloc(bytes);
        if (fread(out->t.data, 1, bytes, f) != bytes)
            ok = fail(why, size, "%s: truncated", path);
    } else {
        ok = false;
    }
    fclose(f);
    free(text);
    return ok;
}

static const char *descr_of(facc_dtype t)
{
    for (int i = 0; i < N_NPY_TYPES; i++)
        if (npy_types[i].dtype == t)
            return npy_types[i].descr;
    return NULL;
}

static bool write_elements(FILE *f, const facc_tensor *t)
{
    int64_t at[FACC_MAX_DIMS] = {0}, n = 1;
    size_t width = facc_dtype_size(t->dtype);
    for (int d = 0; d < t->rank; d++)
        n *= t->shape[d];
    for (int64_t i = 0; i < n; i++) {
        int64_t offset = 0;
        for (int d = 0; d < t->rank; d++)
            offset += at[d] * t->stride[d];
        const char *base = t->data;
        if (fwrite(base + offset * (int64_t)width, width, 1, f) != 1)
            return false;
        for (int d = t->rank; d-- > 0;) {
            if (++at[d] < t->shape[d])
                break;
            at[d] = 0;
        }
    }
    return true;
}

bool npy_write(const char *path, const facc_tensor *t, char *why, size_t size)
{
    char header[256];
    int n = snprintf(header, sizeof header,
                     "{'descr': '%s', 'fortran_order': False, 'shape': (",
                     descr_of(t->dtype));
    for (int d = 0; d < t->rank; d++)
        n += snprintf(header + n, sizeof header - (size_t)n, "%lld,",
                      (long long)t->shape[d]);
    n += snprintf(header + n, sizeof header - (size_t)n, "), }");
    while ((n + 1 + 10) % 64)
        header[n++] = ' ';
    header[n++] = '\n';
    FILE *f = fopen(path, "wb");
    if (!f)
        return fail(why, size, "%s: %s", path, strerror(errno));
    unsigned char head[10] = {0, 0, 0, 0, 0, 0, 1, 0};
    memcpy(head, magic, sizeof magic);
    head[8] = (unsigned char)(n & 255);
    head[9] = (unsigned char)(n >> 8);
    bool ok = fwrite(head, sizeof head, 1, f) == 1 &&
              fwrite(header, (size_t)n, 1, f) == 1 && write_elements(f, t);
    if (fclose(f) || !ok)
        return fail(why, size, "%s: writing failed: %s", path, strerror(errno));
    return true;
}
