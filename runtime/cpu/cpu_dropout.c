/* Dropout on the CPU. In: a tile of weights, seed and offset. Out: those that
 * are dropped are 0. Called by cpu_tile.c. */
#include "runtime/cpu/cpu_dropout.h"

#include <string.h>

#include "templates/common/philox.h"

/* A call of Philox decides about eight weights of 16 rows by 16 columns: two
 * rows, 8 apart, by two neighbours and the two that are 8 further. */
struct group {
    unsigned bits[4];
    int row, column; /* the first, in the tile */
};

static struct group group_at(const struct args_dropout *d, uint32_t head,
                             const struct cpu_rectangle *r, int row, int column)
{
    struct group g = {.row = row, .column = column};
    facc_dropout_bits(g.bits, d->key, d->offset, head, (unsigned)(r->q0 + row),
                      (unsigned)(r->kv0 + column));
    return g;
}

/* Of weight i of 8. */
static bool dropped(const struct args_dropout *d, const struct group *g, int i)
{
    return (g->bits[i / 2] >> 16 * (i % 2) & 0xffff) + d->drops >= 65536;
}
static int row_of(const struct group *g, int i)
{
    return g->row + 8 * (i / 2 % 2);
}
static int column_of(const struct group *g, int i)
{
    return g->column + 8 * (i / 4) + i % 2;
}

/* The next group of the tile; false behind the last one. */
static bool next_group(const struct cpu_rectangle *r, int *row, int *column)
{
    *column += *column % 8 == 6 ? 10 : 2;
    if (*column >= r->columns) {
        *column = 0;
        *row += *row % 8 == 7 ? 9 : 1;
    }
    return *row < r->rows;
}

void cpu_drop(const struct args_dropout *d, uint32_t head,
              const struct cpu_rectangle *r, void *x, int ld, size_t size)
{
    int row = 0, column = 0;
    do {
        const struct group g = group_at(d, head, r, row, column);
        for (int i = 0; i < 8; i++) {
            const int m = row_of(&g, i), n = column_of(&g, i);
            if (dropped(d, &g, i) && m < r->rows && n < r->columns)
                memset((char *)x + ((size_t)m * (size_t)ld + (size_t)n) * size,
                       0, size);
        }
    } while (next_group(r, &row, &column));
}
