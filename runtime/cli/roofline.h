/* The roofline of an attention call: what it has to compute and to move, how
 * long each unit of a machine needs for that at best, and which is the last. */
#ifndef FACC_CLI_ROOFLINE_H
#define FACC_CLI_ROOFLINE_H

#include "runtime/cli/cli.h"

enum roof_unit { ROOF_MATH, ROOF_EXP, ROOF_L2, ROOF_MEMORY, ROOF_UNITS };

/* What a machine can do in a second: FLOP, function values, bytes, bytes. A
 * rate of 0 is not known, or no limit. */
struct roof_machine {
    char name[160];
    const char *source; /* of the rates: "data sheet" … */
    bool gpu;
    int cores; /* multiprocessors, threads */
    double ghz;
    double rate[ROOF_UNITS];
};

/* What a call asks for. Cells are of all sequences and heads. */
struct roof_load {
    double cells;    /* of the whole score matrix */
    double kept;     /* that count */
    double computed; /* of the tiles that are visited */
    bool estimated;  /* kept and computed are of samples, or kept of tiles */
    bool unknown;    /* the mask could not be asked: all cells */
    double q_share, kv_share; /* of the rows that are loaded at all */
    int tile_m, tile_n;
    int functions; /* values of the exp unit for a cell besides its exp */
    double flops;  /* 2 (D + Dv) for each cell that counts */
    double tensor_bytes[6];  /* Q K V O LSE, captured: each once */
    double work[ROOF_UNITS]; /* FLOP issued, function values, bytes, bytes */
    double busy; /* of the cores at most: fewer tiles than cores; 0 to 1 */
};

struct roof {
    struct roof_machine machine;
    struct roof_load load;
    char label[96];
    int group;                  /* of one colour in the picture */
    double seconds[ROOF_UNITS]; /* each unit alone; 0 not known */
    enum roof_unit limiter;
    double best;      /* seconds */
    double intensity; /* FLOP for each ideal byte of memory */
    double ridge;     /* intensity from which on memory is not the limit */
    double measured;  /* seconds; 0: not measured */
};

const char *roof_unit_name(const struct roof_machine *m, enum roof_unit u);

/* roofline_machine.c. A GPU: that of the job, or by name or architecture from
 * the table of data sheets; family is the kernel's. EXIT_OK or the exit code
 * after a message. */
int roof_machine_gpu(const struct command *c, const struct options *o,
                     struct job *job, int arch, const char *family,
                     facc_dtype dtype, struct roof_machine *m);
/* This computer: measured, in about a second, with so many threads. */
void roof_machine_cpu(int threads, struct roof_machine *m);

/* roofline.c. `args`: sizes and captured tensors (none: the mask is not asked);
 * v: what would run. */
int roof_load(struct job *job, const facc_args *args, const facc_variant *v,
              bool gpu, struct roof_load *l);
/* From machine, load and measured to the rest. */
void roof_solve(struct roof *r);
/* All for one call. seconds 0: not measured. */
int roof_make(const struct command *c, const struct options *o, struct job *job,
              double seconds, struct roof *r);

/* roofline_report.c */
/* 12345678 as "12.3 M", with a unit behind it: "12.3 MB". */
struct scaled {
    char text[32];
};
struct scaled roof_scaled(double v, const char *unit);
void roof_print(const struct roof *r);
void roof_print_table(const struct roof *r, int n); /* a line for each */
struct cJSON *roof_json(const struct roof *r);
/* roofline_picture.c: all of one machine. */
int roof_write_svg(const struct roof *r, int n, const char *path);

#endif
