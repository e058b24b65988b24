/* The caller's handle to machine code, and what a launch needs to know. */
#ifndef FACC_KERNEL_H
#define FACC_KERNEL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "runtime/args.h"
#include "runtime/module.h"
#include "runtime/schedule.h"

/* Bytes of kernel arguments: the driver takes 4,096, device code rounds the
 * size up to the header's alignment. */
enum { KERNEL_MAX_ARGS = 3968, KERNEL_ARGS_ALIGN = 128 };
/* Behind them, where rows of captured tensors join Q K^T, and then where one's
 * tiles are copied: TMA descriptors. */
enum { DOT_MAPS_BYTES = 256, PLANE_MAP_BYTES = 128 };

struct facc_kernel {
    facc_ctx *ctx;
    struct plans plans;
    struct module *module[MODULES_MAX]; /* of each plan; the context's */
    struct signature signature;
    size_t args_size;       /* bytes, rounded up to KERNEL_ARGS_ALIGN */
    char source[16];        /* where this handle's code came from */
    double compile_seconds; /* 0 unless compiled for this handle */
    atomic_int launched;    /* 1 + the plan that the last launch took */
    /* Checked debug builds: four ints per device, see launch.c; 0: none. */
    _Atomic(cu_ptr) report[DRIVER_MAX_DEVICES];
};

/* kernel.c. The architecture that is asked for, or if that is 0 the best for a
 * device. */
bool kernel_arch(facc_ctx *ctx, int asked, int device, int *arch,
                 struct diag *d);
/* The plans of a program and a variant, its architecture resolved and
 * everything checked that does not depend on tensors. */
bool kernel_configure(facc_ctx *ctx, const facc_program *p,
                      const facc_variant *variant, struct plans *plans,
                      struct diag *d);

/* launch.c. What a configuration asks of the arguments: all of a kernel ask
 * the same. */
void launch_rules(const struct unit_config *config, const char *stage,
                  struct args_rules *out);
/* Which of the plans takes these tensors, by their pointers and strides; -1:
 * none, with *d filled. */
int launch_choice(const struct plans *plans, const struct signature *s,
                  const facc_args *args, const char *stage, struct diag *d);

#endif
