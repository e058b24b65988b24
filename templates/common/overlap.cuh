// Launches that follow each other in a stream overlap (programmatic dependent launch): the runtime
// starts a kernel that asks for it as soon as all CTAs of the one before have said that it may, or
// are over. It makes ready what it can, and waits before it reads or writes memory.
#pragma once
#include "common/variant_ptx.cuh"

// Until the launches before this one are over, and what they wrote is seen.
FACC_FN void wait_for_launches_before()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The launch after this one may start where there is room.
FACC_FN void let_next_launch_start()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Of the kernels that make a schedule, which are short: what follows them is there when they end.
FACC_FN void start_of_maker()
{
    wait_for_launches_before();
    let_next_launch_start();
}
