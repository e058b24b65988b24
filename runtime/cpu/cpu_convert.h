/* Rows of tensors to float and back. */
#ifndef FACC_CPU_CONVERT_H
#define FACC_CPU_CONVERT_H

#include <stddef.h>
#include <stdint.h>

#include "compiler/dtype.h"

/* to[i] = from[i * stride], exactly; f32 f16 bf16 e4m3 e5m2. */
void cpu_load_row(float *to, enum dtype t, const void *from, int64_t stride,
                  int n);
/* to[i * stride] = values[i], rounded to nearest even. */
void cpu_store_row(enum dtype t, void *to, int64_t stride, int n,
                   const double *values);

#endif
