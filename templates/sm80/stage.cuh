// What a CTA keeps in static shared memory of rows, columns and diagonals.
#pragma once
#include "common/tables.cuh"
#include "sm80/shape.cuh"

// The tables have what room select.c leaves beside the dynamic shared memory; what does not fit is
// made in each thread.
constexpr int kStageBuffers = kGroups + 1;
constexpr int kStaticBytes = 8 * 1024;
constexpr int kTableBytes = kStaticBytes - static_cast<int>(sizeof(Work)) - 64; // 64: alignment
constexpr int kColBytes = kStageBuffers * kColTableBytes;
constexpr int kDiagBytes = kStageBuffers * kDiagTableBytes;
constexpr bool kStageCol = Variant::kStageCol && kColBytes <= kTableBytes;
constexpr bool kStageDiag =
    Variant::kStageDiag && kDiagBytes + (kStageCol ? kColBytes : 0) <= kTableBytes;

// True: values of rows are kept in shared memory, where only tiles that are masked read them;
// else in registers, through the whole loop. A score needs them in every tile.
constexpr int kRowTableBytes = kTileM * static_cast<int>(sizeof(Variant::Row));
constexpr bool kRowsShared =
    kListed && Variant::kHasMask && !kMaskAtOnce && !Variant::kHasScore &&
    sizeof(Variant::Row) >= 4 &&
    kRowTableBytes + (kStageCol ? kColBytes : 0) + (kStageDiag ? kDiagBytes : 0) <= kTableBytes;

struct Stage : CellTables<kStageBuffers, kStageCol, kStageDiag> {
    Variant::Row row[kRowsShared ? kTileM : 1];
};
static_assert(sizeof(Stage) + sizeof(Work) <= kStaticBytes, "select.c leaves this much");
