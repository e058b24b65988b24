/* The table of `facc bench`: facc's own variants over lengths. Timed by
 * bench_sweep.c, shown by bench_report.c, beside others by bench_peers.c. */
#ifndef FACC_CLI_BENCH_H
#define FACC_CLI_BENCH_H

#include "runtime/cli/roofline.h"

enum { BENCH_VARIANTS = 6, BENCH_LENGTHS = 24 };

struct bench_figure {
    double median, min, max; /* milliseconds; median 0: not measured */
    double cells;            /* of one (b, h) that count */
    double tflops;           /* 2 (D + Dv) for each of them */
};

struct bench_table {
    char device[160], family[16]; /* family "" on the CPU */
    int device_index;             /* -1: the CPU */
    const char *dtype;
    int rounds, n_lengths;
    int tokens; /* B * S, at least one sequence */
    int H, D;
    int64_t lengths[BENCH_LENGTHS], B[BENCH_LENGTHS];
    const char *names[BENCH_VARIANTS];
    struct bench_figure figures[BENCH_VARIANTS][BENCH_LENGTHS];
    struct roof roofs[BENCH_VARIANTS * BENCH_LENGTHS]; /* by length, variant */
    int n_roofs;                                       /* 0: not asked for */
};

/* Times all of it. EXIT_OK or the exit code after a message. */
int bench_sweep(const struct command *c, const struct options *o,
                struct bench_table *t);

/* Text or JSON on stdout, files if the options name them. */
int bench_report(const struct options *o, const struct bench_table *t);

/* Runs the Python driver that compares with PyTorch's kernels, if Python,
 * PyTorch and a GPU are there; else says what is missing. EXIT_OK or the exit
 * code after a message. device: as in struct job. */
int bench_peers(const struct options *o, int device);

#endif
