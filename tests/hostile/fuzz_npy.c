/* libFuzzer: any bytes as a .npy file. The first byte says how 8- and 16-bit
 * elements are named (":bf16"). What is read agrees with the file's size, and
 * comes back the same after writing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/cli/cli.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static _Noreturn void defect(const char *what, const char *why)
{
    fprintf(stderr, "DEFECT: %s: %s\n", what, why);
    abort();
}

/* A file in memory, and its path. */
static int open_memory(char path[32])
{
    int fd = memfd_create("npy", 0);
    if (fd < 0)
        abort();
    snprintf(path, 32, "/proc/self/fd/%d", fd);
    return fd;
}

static void check_array(const struct array *a, size_t size)
{
    int64_t n = 1;
    if (a->t.rank < 0 || a->t.rank > FACC_MAX_DIMS)
        defect("rank", "out of range");
    for (int d = a->t.rank; d-- > 0;) {
        if (a->t.shape[d] < 0 || a->t.stride[d] != n)
            defect("layout", "not contiguous");
        n *= a->t.shape[d];
    }
    if ((size_t)n != a->count || a->count * facc_dtype_size(a->t.dtype) > size)
        defect("count", "more than the file has");
}

/* Written and read again: the same bytes. */
static void check_writing(const struct array *a)
{
    char path[32], why[1024];
    int fd = open_memory(path);
    struct array b;
    /* 16-bit patterns are written as integers, other raw types not at all */
    facc_dtype as = a->t.dtype;
    struct array plain = *a;
    if (as == FACC_BF16)
        plain.t.dtype = FACC_I16;
    if (as == FACC_E4M3 || as == FACC_E5M2)
        plain.t.dtype = FACC_U8;
    if (!npy_write(path, &plain.t, why, sizeof why))
        defect("writing", why);
    if (!npy_read(path, 0, &b, why, sizeof why))
        defect("reading what was written", why);
    if (b.count != a->count || b.t.rank != a->t.rank ||
        memcmp(b.t.shape, a->t.shape, sizeof b.t.shape) != 0 ||
        memcmp(b.t.data, a->t.data, a->count * facc_dtype_size(a->t.dtype)) !=
            0)
        defect("reading what was written", "another array");
    free(b.t.data);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const facc_dtype raw[] = {0,         0,         0,         FACC_F16,
                                     FACC_BF16, FACC_E4M3, FACC_E5M2, FACC_F32};
    char path[32], why[1024] = "";
    struct array a;
    if (size < 1)
        return 0;
    int fd = open_memory(path);
    if (write(fd, data + 1, size - 1) != (ssize_t)(size - 1))
        abort();
    if (npy_read(path, raw[data[0] % (sizeof raw / sizeof *raw)], &a, why,
                 sizeof why)) {
        check_array(&a, size);
        check_writing(&a);
    } else if (!strstr(why, path)) {
        defect("an error without the file's name", why);
    }
    free(a.t.data);
    close(fd);
    return 0;
}
