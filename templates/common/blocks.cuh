// Block masks from outside (FlexAttention's lists), any block size. What the lists say of a block
// is its class, a verdict: masked, all cells count, or the program's mask decides.
#pragma once
#include "common/sequences.cuh"

// The classes of (b, h): [block_rows][block_cols].
FACC_FN const unsigned char *block_classes_of(const KernelArgs &args, int b, int h)
{
    const long long list =
        (args.block_per_b ? b : 0) * static_cast<long long>(args.block_per_h ? args.H : 1) +
        (args.block_per_h ? h : 0);
    return args.schedule.block_classes + list * args.block_rows * args.block_cols;
}

// Of rows of blocks that exist: padding rows and columns get the last one's class.
FACC_FN int block_row(const KernelArgs &args, int q)
{
    return min(q / args.block_size_q, args.block_rows - 1);
}

FACC_FN int block_col(const KernelArgs &args, int kv)
{
    return min(kv / args.block_size_kv, args.block_cols - 1);
}

FACC_FN int block_class(const KernelArgs &args, const unsigned char *classes, int row, int col)
{
    return classes[row * static_cast<long long>(args.block_cols) + col];
}
