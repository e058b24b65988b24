// The kernel: which warp does what. A CTA per multiprocessor works through query tiles; see
// shape.cuh for its parts, mainloop.cuh for how they overlap. The softmax is there before.
#pragma once
#include "sm90/mainloop.cuh"

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    facc_forward(const __grid_constant__ KernelArgs args)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    FACC_DECLARE_OUTPUT();
    Control &c = *reinterpret_cast<Control *>(shared + kBytesTiles + kGroups * kBytesO);
    const Tiles tiles{shared_address(shared)};
    const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
    if (threadIdx.x == 0) {
        if (tiles.base % 1024 != 0)
            __trap(); // the swizzle goes by the address
        init_barriers(c);
    }
    __syncthreads();
    if (warp >= kConsumerWarps) {
        give_registers<kProducerRegisters>();
        if (warp == kConsumerWarps)
            schedule_items(args, c, tiles);
        else if (warp == kConsumerWarps + 1)
            load_tiles(args, c, tiles);
        else if (warp == kConsumerWarps + 2)
            load_values(args, c, tiles);
        else if constexpr (kTables)
            make_tables(args, c, tiles);
        else if constexpr (kTransposesV)
            transpose_values(c, tiles);
    } else {
        take_registers<kConsumerRegisters>();
        Consumer consumer(args, c, tiles, warp / 4);
        consumer.run();
    }
}
