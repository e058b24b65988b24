// The kernels that make a schedule, one after the other as a launch does: for schedule.cpp.
#include "simt.h"
// clang-format off
#include "common/schedule.cu"
// clang-format on

extern "C" __attribute__((visibility("default"))) void run_schedule(const void *args)
{
    const KernelArgs &a = *static_cast<const KernelArgs *>(args);
    const struct facc_schedule &s = a.schedule;
    const int heads = s.per_h ? a.H : 1, rows = 32 / a.tiling.groups;
    if (kBlockMask)
        simt::launch((a.block_per_b ? a.B : 1) * (a.block_per_h ? a.H : 1) * a.block_rows,
                     FACC_PREPARE_THREADS, [&] { facc_block_classes(a); });
    if (Variant::kHasQSummary || Variant::kHasKvSummary)
        simt::launch((Variant::kHasKvSummary ? heads * s.kv_ids[FACC_LEVEL_WINDOW] : 0) +
                         (Variant::kHasQSummary ? (s.max_rows + rows - 1) / rows : 0),
                     FACC_SUMMARIZE_THREADS, [&] { facc_summarize(a); });
    if (kScans)
        simt::launch(s.max_rows * s.windows, FACC_PREPARE_THREADS, [&] { facc_scan(a); });
    simt::launch((s.max_rows + 3) / 4, FACC_PREPARE_THREADS, [&] { facc_schedule(a); });
    simt::launch(1, FACC_ORDER_THREADS, [&] { facc_order(a); });
}
