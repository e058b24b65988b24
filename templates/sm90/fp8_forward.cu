// Forward attention for e4m3 and e5m2 on Hopper: the kernel for 16 bits with another softmax.
#include "sm90/fp8_softmax.cuh"
// which the kernel asks for:
#include "sm90/kernel.cuh"
