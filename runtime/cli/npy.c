/* NumPy's .npy files, versions 1 to 3, C order, little endian
 * (numpy.lib.format). Reads into freshly allocated arrays; writes any
 * strides. */
#include "runtime/cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
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

/* The text after 'key': in the header's dict, or NULL. */
static const char *dict_value(const char *header, const char *key)
{
    char quoted[40];
    snprintf(quoted, sizeof quoted, "'%s'", key);
    const char *p = strstr(header, quoted);
    if (!p)
        return NULL;
    p += strlen(quoted);
    while (*p == ' ' || *p == ':')
        p++;
    return p;
}

static bool parse_descr(const char *path, const char *header, facc_dtype raw,
                        facc_dtype *dtype, char *why, size_t size)
{
    const char *p = dict_value(header, "descr");
    char descr[16] = "";
    if (!p || *p != '\'')
        return fail(why, size,
                    "%s: only plain element types are read (no structured "
                    "arrays)",
                    path);
    sscanf(p + 1, "%15[^']", descr);
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

static bool parse_shape(const char *path, const char *header, facc_tensor *t,
                        char *why, size_t size)
{
    const char *p = dict_value(header, "shape");
    if (!p || *p != '(')
        return fail(why, size, "%s: the header has no shape", path);
    p++;
    while (*p && *p != ')') {
        long long v;
        int used;
        if (sscanf(p, "%lld%n", &v, &used) != 1 || v < 0 || v > (1LL << 40))
            return fail(why, size, "%s: the header's shape is not readable",
                        path);
        if (t->rank == FACC_MAX_DIMS)
            return fail(why, size, "%s: more than %d dimensions", path,
                        FACC_MAX_DIMS);
        t->shape[t->rank++] = v;
        p += used;
        while (*p == ',' || *p == ' ')
            p++;
    }
    return true;
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
        if (t->shape[d] && n > (1LL << 46) / t->shape[d])
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
    char *header = NULL;
    bool ok = read_header(path, f, &header, why, size) &&
              parse_descr(path, header, raw, &out->t.dtype, why, size) &&
              parse_shape(path, header, &out->t, why, size) &&
              set_layout(path, out, why, size);
    const char *order = ok ? dict_value(header, "fortran_order") : NULL;
    if (ok && (!order || strncmp(order, "False", 5) != 0))
        ok = fail(why, size,
                  "%s: the array is in Fortran order; save "
                  "numpy.ascontiguousarray(a)",
                  path);
    size_t bytes = ok ? out->count * facc_dtype_size(out->t.dtype) : 0;
    if (ok && check_length(path, f, bytes, why, size)) {
        out->t.data = cli_alloc(bytes);
        if (fread(out->t.data, 1, bytes, f) != bytes)
            ok = fail(why, size, "%s: truncated", path);
    } else {
        ok = false;
    }
    fclose(f);
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
