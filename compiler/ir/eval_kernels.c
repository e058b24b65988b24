/* The evaluator's inner loops, made from ops.def for float and for double and
 * for each instruction set. In: vectors of operands. Out: the vector of
 * results. Called by eval.c. Built without floating-point contraction: f64
 * results must equal the Lua VM's bit for bit. */
#include "compiler/ir/eval_kernels.h"

#include <math.h>
#include <string.h>

#include "compiler/ir/eval_math.h"

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif !defined(__STRICT_ANSI__) /* gcc contracts in its own dialects */
#error "compile with -std=c11"
#endif

#if defined(__x86_64__)
#define EV_AVX2 __attribute__((target("avx2")))
#define EV_AVX512 __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl")))
#endif

/* double: the C library as the Lua VM calls it */
#define FT double
#define EVP f64
#define M(fn) EV_F64_##fn
#define EV_F64_exp exp
#define EV_F64_tanh tanh
#define EV_F64_floor floor
#define EV_F64_ceil ceil
#define EV_F64_rint rint
#define EV_F64_fabs fabs
#define EV_F64_pow ev_pow_f64
#define EV_F64_exp2 exp2
#define EV_F64_log log
#define EV_F64_log2 log2
#define EV_F64_log10 log10
#define EV_F64_sin sin
#define EV_F64_cos cos
#define EV_F64_tan tan
#define EV_F64_sqrt sqrt
#define EV_F64_erf erf
#define ev_to_i32 ev_to_i32_f64
#define EV_FMOD ev_fmod_f64
#define EVI generic
#define EV_TARGET
#include "compiler/ir/eval_loops.h"
#if defined(__x86_64__)
#define EVI avx2
#define EV_TARGET EV_AVX2
#include "compiler/ir/eval_loops.h"
#define EVI avx512
#define EV_TARGET EV_AVX512
#include "compiler/ir/eval_loops.h"
#endif
#undef FT
#undef EVP
#undef M
#undef ev_to_i32
#undef EV_FMOD

/* float: exp and tanh are ours, so that loops over them vectorise */
#define FT float
#define EVP f32
#define M(fn) EV_F32_##fn
#define EV_F32_exp ev_exp_f32
#define EV_F32_tanh ev_tanh_f32
#define EV_F32_floor floorf
#define EV_F32_ceil ceilf
#define EV_F32_rint rintf
#define EV_F32_fabs fabsf
#define EV_F32_pow powf
#define EV_F32_exp2 exp2f
#define EV_F32_log logf
#define EV_F32_log2 log2f
#define EV_F32_log10 log10f
#define EV_F32_sin sinf
#define EV_F32_cos cosf
#define EV_F32_tan tanf
#define EV_F32_sqrt sqrtf
#define EV_F32_erf erff
#define ev_to_i32 ev_to_i32_f32
#define EV_FMOD ev_fmod_f32
#define EVI generic
#define EV_TARGET
#include "compiler/ir/eval_loops.h"
#if defined(__x86_64__)
#define EVI avx2
#define EV_TARGET EV_AVX2
#include "compiler/ir/eval_loops.h"
#define EVI avx512
#define EV_TARGET EV_AVX512
#include "compiler/ir/eval_loops.h"
#endif

const struct eval_kernels *eval_kernels_named(enum eval_precision prec,
                                              const char *isa)
{
    bool f32 = prec == EVAL_F32;
#if defined(__x86_64__)
    if (strcmp(isa, "avx512") == 0)
        return !__builtin_cpu_supports("avx512f") ||
                       !__builtin_cpu_supports("avx512dq") ||
                       !__builtin_cpu_supports("avx512bw") ||
                       !__builtin_cpu_supports("avx512vl")
                   ? NULL
               : f32 ? &kernels_f32_avx512
                     : &kernels_f64_avx512;
    if (strcmp(isa, "avx2") == 0)
        return !__builtin_cpu_supports("avx2") ? NULL
               : f32                           ? &kernels_f32_avx2
                                               : &kernels_f64_avx2;
#endif
    if (strcmp(isa, "generic") == 0)
        return f32 ? &kernels_f32_generic : &kernels_f64_generic;
    return NULL;
}

const struct eval_kernels *eval_kernels_get(enum eval_precision prec)
{
    static const char *const isa[] = {"avx512", "avx2", "generic"};
    const struct eval_kernels *k = NULL;
    for (size_t i = 0; k == NULL; i++)
        k = eval_kernels_named(prec, isa[i]);
    return k;
}
