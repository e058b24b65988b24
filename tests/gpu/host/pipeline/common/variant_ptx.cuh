#pragma once
#include "facc_config.cuh"
// after kSharedBytes:
#include "warps.h"
