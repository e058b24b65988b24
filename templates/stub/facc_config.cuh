// Stand-in for the generated configuration: D = 128, bf16, all that kPacked asks for.
#pragma once

constexpr int kElementF16 = 0, kElementBf16 = 1, kElementF32 = 2;
constexpr int kElement = kElementBf16;
constexpr int kOutElement = kElementBf16;
constexpr int kHeadDim = 128, kHeadDimV = 128;
constexpr int kTileM = 128, kTileN = 64;
constexpr int kWarps = 4, kStages = 1;
constexpr bool kQInRegisters = false;
constexpr int kQBuffers = 1;
constexpr int kSharedBytes = 69632;
constexpr bool kHasSinks = true;
constexpr bool kHasDropout = true;
constexpr bool kCheckBounds = false;
constexpr bool kBlockMask = false;
constexpr bool kFullBlocksArePartial = false;
constexpr bool kPacked = true;
#define FACC_SCHEDULED 1
constexpr int kNumTensors = 0, kNumParams = 0;
constexpr int kExtraDim = 0;
constexpr int kPlaneBytes = 0;
