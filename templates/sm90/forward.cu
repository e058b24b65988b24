// Forward attention for f16 and bf16 on Hopper: TMA, wgmma, specialised warps.
#include "sm90/softmax.cuh"
// which the kernel asks for:
#include "sm90/kernel.cuh"
