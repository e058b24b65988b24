/* Contexts, programs and kernels that come and go, each compiled anew: memory
 * stays. usage: test_cycles [N]: so many with NVRTC (default 20, some 50 ms
 * each; 10,000 by run.sh --long) and ten times as many with a made-up one. */
#include "tests/unit/fake_nvrtc.h"
#include "tests/unit/kernel_fixture.h"

#include <malloc.h>

static int cycles = 20; /* of the command line */

static long resident_kib(void)
{
    long pages = 0, all;
    FILE *f = fopen("/proc/self/statm", "r");
    ck_assert(f && fscanf(f, "%ld %ld", &all, &pages) == 2);
    fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

struct cycle {
    facc_options o;
    struct counts c;
};

/* Some masks in turn, so that no allocation always meets its own hole. */
static void run_cycles(struct cycle *x, int n)
{
    for (int i = 0; i < n; i++) {
        char mask[64];
        snprintf(mask, sizeof mask, "q >= kv + %d", i % 7);
        once(&x->o, mask);
    }
}

/* NVRTC by itself keeps 114 (13.0) to 134 (13.3) bytes of the heap at each
 * compile; facc must keep none. */
enum { OF_NVRTC = 160, NONE = 4 };

/* What the second half adds to what the first one needed: nothing that grows
 * with the number of cycles, beyond `each` bytes. */
static void ck_flat(struct cycle *x, int n, long kib, int each)
{
    x->o.cache_mode = 3; /* off: each is a compile */
    run_cycles(x, n);
    const size_t heap = mallinfo2().uordblks;
    const long resident = resident_kib();
    run_cycles(x, n);
    const ssize_t grown = (ssize_t)(mallinfo2().uordblks - heap);
    const long more = resident_kib() - resident;
    ck_counts(&x->c, 2 * n, 0, 0);
    (void)kib; /* unless it is looked at below */
    printf("%d cycles: heap + %zd bytes, resident + %ld KiB\n", n, grown, more);
    fflush(stdout);
    ck_assert_int_lt(grown, 100000 + each * n);
#ifndef __SANITIZE_ADDRESS__ /* which keeps freed memory for a while */
    ck_assert_int_lt(more, kib);
#endif
}

START_TEST(made_up_nvrtc)
{
    struct cycle x;
    char fake[PATH_MAX + 32];
    x.o = options(&x.c);
    ck_assert_msg(make_fake_nvrtc(base, fake, sizeof fake), "no C compiler");
    x.o.nvrtc_path = fake;
    x.o.template_dir = NULL;
    ck_flat(&x, 5 * cycles, 1024, NONE);
}
END_TEST

START_TEST(real_nvrtc)
{
    struct cycle x;
    if (no_nvrtc("real_nvrtc"))
        return;
    x.o = options(&x.c);
    ck_flat(&x, cycles / 2, 8192, OF_NVRTC);
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = {made_up_nvrtc, real_nvrtc};
    if (argc > 1)
        cycles = atoi(argv[1]);
    return suite_run_tests("cycles", 7200, set_up, tear_down, tests,
                           sizeof tests / sizeof tests[0]);
}
