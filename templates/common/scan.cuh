// Two bits per KV tile and warp group (work, masked) where verdicts of the whole mask do not do:
// masks that read a tensor by both q and kv are looked at cell by cell, and block masks are
// gathered from their lists.
#pragma once
#include "common/tile_row.cuh"

constexpr bool kScans = Variant::kScanned || kBlockMask;

// The lists to classes: one CTA per row of blocks. A block in both lists is full.
extern "C" __global__ void __launch_bounds__(FACC_PREPARE_THREADS)
    facc_block_classes(const __grid_constant__ KernelArgs args)
{
    start_of_maker();
    if constexpr (kBlockMask) {
        const int cols = args.block_cols;
        const long long first = blockIdx.x * static_cast<long long>(cols);
        unsigned char *classes = args.schedule.block_classes + first;
        for (int i = threadIdx.x; i < cols; i += FACC_PREPARE_THREADS)
            classes[i] = kVerdictEmpty;
        __syncthreads();
        const auto scatter = [&](const int *counts, const int *indices, int verdict) {
            const int n = min(counts[blockIdx.x], cols);
            for (int i = threadIdx.x; i < n; i += FACC_PREPARE_THREADS) {
                const int col = indices[first + i];
                if (col >= 0 && col < cols)
                    classes[col] = static_cast<unsigned char>(verdict);
            }
        };
        scatter(args.block_counts, args.block_indices, kVerdictPartial);
        __syncthreads();
        if (args.full_counts)
            scatter(args.full_counts, args.full_indices,
                    kFullBlocksArePartial ? kVerdictPartial : kVerdictFull);
    }
}

// What the classes of the blocks that a rectangle (inclusive) touches have in common with it: bit c
// - 1 for class c. By a warp; all lanes get it.
FACC_FN unsigned classes_in(const KernelArgs &args, const TileRow &row, int q_first, int q_last,
                            int kv_first, int kv_last)
{
    const unsigned char *classes = block_classes_of(args, row.b, row.h);
    const int row0 = block_row(args, q_first), col0 = block_col(args, kv_first);
    const int rows = block_row(args, q_last) - row0 + 1;
    const int cols = block_col(args, kv_last) - col0 + 1;
    unsigned found = 0;
    for (int i = threadIdx.x % 32; i < rows * cols; i += 32) // at most the cells of a tile
        found |= 1u << (block_class(args, classes, row0 + i / cols, col0 + i % cols) - 1);
    return __reduce_or_sync(~0u, found);
}

// Whether the cell counts, by the lists and the mask.
FACC_FN bool scan_cell(const KernelArgs &args, const TileRow &row, const unsigned char *classes,
                       const Variant::Row &r, const Variant::Col &col, int q, int kv)
{
    if constexpr (kBlockMask) {
        const int cell_class = block_class(args, classes, block_row(args, q), block_col(args, kv));
        if (cell_class != kVerdictPartial)
            return cell_class == kVerdictFull;
    }
    return Variant::mask(args, row.t, r, col, Variant::diag(args, row.t, q - kv),
                         Variant::base(args, row.t, r, q, kv), 0.0f, q, kv, 0);
}

// The exact verdict of a group's rows and a KV tile. By a warp.
FACC_FN int scan_cells(const KernelArgs &args, const TileRow &row, int group, int kv_first)
{
    const unsigned char *classes = nullptr;
    if constexpr (kBlockMask)
        classes = block_classes_of(args, row.b, row.h);
    const int q_last = row.q_last(group), kv_last = row.kv_last(kv_first, tile_n(args));
    unsigned seen = 0; // of a verdict's bits
    for (int at = kv_first; at <= kv_last; at += 32) {
        const int kv = at + static_cast<int>(threadIdx.x % 32);
        const Variant::Col col = Variant::col(args, row.t, kv);
        for (int q = row.q_first(group); q <= q_last; ++q) {
            if (kv <= kv_last)
                seen |= scan_cell(args, row, classes, Variant::row(args, row.t, q), col, q, kv)
                            ? kVerdictFull
                            : kVerdictEmpty;
            if (q % 8 == 7 && __reduce_or_sync(~0u, seen) == kVerdictPartial)
                return kVerdictPartial;
        }
    }
    return __reduce_or_sync(~0u, seen);
}

// By a warp.
FACC_FN int scan_tile(const KernelArgs &args, const TileRow &row, int group, int tile)
{
    const int width = tile_n(args), kv_first = tile * width;
    unsigned found = 1u << (kVerdictPartial - 1); // classes
    if constexpr (kBlockMask)
        found = classes_in(args, row, row.q_first(group), row.q_last(group), kv_first,
                           row.kv_last(kv_first, width));
    int verdict = (found & 1) * kVerdictEmpty | (found >> 1 & 1) * kVerdictFull;
    if (found >> 2 & 1) {
        const int by_mask = group_verdict(args, row, group, FACC_LEVEL_TILE, tile);
        verdict |= by_mask;
        if constexpr (Variant::kScanned && !Variant::kMaskNeedsScore)
            if (by_mask == kVerdictPartial)
                verdict = scan_cells(args, row, group, kv_first);
    }
    return verdict;
}

// One CTA per row and window, of those that the row can reach.
extern "C" __global__ void __launch_bounds__(FACC_PREPARE_THREADS)
    facc_scan(const __grid_constant__ KernelArgs args)
{
    start_of_maker();
    if constexpr (kScans) {
        __shared__ unsigned work[kGroups], masked[kGroups];
        const int groups = args.tiling.groups, width = tile_n(args);
        const int id = blockIdx.x / args.schedule.windows;
        const int window = blockIdx.x - id * args.schedule.windows;
        const TileRow row(args, id);
        if (row.tile < 0 || window < row.first_window() ||
            window >= row.first_window() + row.windows())
            return;
        if (threadIdx.x < kGroups)
            work[threadIdx.x] = masked[threadIdx.x] = 0;
        __syncthreads();
#pragma unroll 1
        for (int i = threadIdx.x / 32; i < 32 * groups; i += FACC_PREPARE_THREADS / 32) {
            const int group = i % groups, bit = i / groups, tile = 32 * window + bit;
            if (tile < row.reach.first || tile >= row.reach.end || !row.has_rows(group))
                continue;
            const int verdict = scan_tile(args, row, group, tile);
            const bool tail = tile * width + width > row.kv_len;
            if (threadIdx.x % 32 == 0 && verdict != kVerdictEmpty) {
                atomicOr(&work[group], 1u << bit);
                if (tail || verdict == kVerdictPartial)
                    atomicOr(&masked[group], 1u << bit);
            }
        }
        __syncthreads();
        if (threadIdx.x < groups)
            args.schedule.scan[static_cast<long long>(blockIdx.x) * groups + threadIdx.x] =
                facc_schedule_bits{work[threadIdx.x], masked[threadIdx.x]};
    }
}
