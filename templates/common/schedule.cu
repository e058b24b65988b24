// The kernels that make a schedule, for forward kernels of any family and tile: a unit of its own,
// compiled once for a program's mask.
#include "common/kernel_args.h"
#include "facc_config.cuh"

static_assert(kTileM == 0, "each launch tells the tiles");
constexpr int kGroups = FACC_MAX_GROUPS, kRowsPerGroup = 0;

#include "common/schedule.cuh"
