/* The CPU attention's inner loops, made for float and double and for each
 * instruction set. In and out: tiles in one thread's scratch. Called by
 * cpu_attention.c. */
#include "runtime/cpu/cpu_kernels.h"

#include <math.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define CK_AVX2 __attribute__((target("avx2,fma")))
#define CK_AVX512                                                              \
    __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")))
#endif

#include "compiler/ir/eval_math.h"

#define FT float
#define CK_EXP ev_exp_f32
#define CK_LANES 4
#define CK_NAME(f) f##_f32_generic
#define CK_ISA "generic"
#define CK_TARGET
#define CK_FMA(a, b, c) ((a) * (b) + (c))
#include "runtime/cpu/cpu_loops.h"
#if defined(__x86_64__)
#define CK_LANES 8
#define CK_NAME(f) f##_f32_avx2
#define CK_ISA "avx2"
#define CK_TARGET CK_AVX2
#define CK_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#include "runtime/cpu/cpu_loops.h"
#define CK_LANES 16
#define CK_NAME(f) f##_f32_avx512
#define CK_ISA "avx512f"
#define CK_TARGET CK_AVX512
#define CK_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#include "runtime/cpu/cpu_loops.h"
#endif
#undef FT
#undef CK_EXP

#define FT double
#define CK_EXP exp
#define CK_LANES 2
#define CK_NAME(f) f##_f64_generic
#define CK_ISA "generic"
#define CK_TARGET
#define CK_FMA(a, b, c) ((a) * (b) + (c))
#include "runtime/cpu/cpu_loops.h"
#if defined(__x86_64__)
#define CK_LANES 4
#define CK_NAME(f) f##_f64_avx2
#define CK_ISA "avx2"
#define CK_TARGET CK_AVX2
#define CK_FMA(a, b, c) _mm256_fmadd_pd(a, b, c)
#include "runtime/cpu/cpu_loops.h"
#define CK_LANES 8
#define CK_NAME(f) f##_f64_avx512
#define CK_ISA "avx512f"
#define CK_TARGET CK_AVX512
#define CK_FMA(a, b, c) _mm512_fmadd_pd(a, b, c)
#include "runtime/cpu/cpu_loops.h"
#endif

const struct cpu_kernels *cpu_kernels_named(bool f64, const char *isa)
{
#if defined(__x86_64__)
    bool fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (strcmp(isa, "avx512f") == 0)
        return !fma || !__builtin_cpu_supports("avx512f") ||
                       !__builtin_cpu_supports("avx512dq") ||
                       !__builtin_cpu_supports("avx512bw") ||
                       !__builtin_cpu_supports("avx512vl")
                   ? NULL
               : f64 ? &kernels_f64_avx512
                     : &kernels_f32_avx512;
    if (strcmp(isa, "avx2") == 0)
        return !fma ? NULL : f64 ? &kernels_f64_avx2 : &kernels_f32_avx2;
#endif
    if (strcmp(isa, "generic") == 0)
        return f64 ? &kernels_f64_generic : &kernels_f32_generic;
    return NULL;
}

const struct cpu_kernels *cpu_kernels_get(bool f64)
{
    static const char *const isa[] = {"avx512f", "avx2", "generic"};
    const struct cpu_kernels *k = NULL;
    for (size_t i = 0; k == NULL; i++)
        k = cpu_kernels_named(f64, isa[i]);
    return k;
}
