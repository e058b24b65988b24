/* `facc mask` as text: counts and a map of characters; and as JSON. In: a
 * mask_view. Out: stdout. Called by cmd_mask.c. */
#include "runtime/cli/mask.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

double mask_work_saved(const struct mask_view *m)
{
    const facc_verdict_counts *c = &m->counts;
    const double all = (double)c->empty + (double)c->full + (double)c->partial;
    return all > 0 ? (double)c->empty / all : 0;
}

double mask_sparsity(const struct mask_view *m)
{
    const facc_verdict_counts *c = &m->counts;
    if (c->kept < 0 || c->cells == 0)
        return NAN;
    return 1 - (double)c->kept / (double)c->cells;
}

static double percent(int64_t n, int64_t all)
{
    return all > 0 ? 100 * (double)n / (double)all : 0;
}

int mask_lines(const struct mask_view *m, char line[MASK_LINES][MASK_LINE])
{
    const facc_verdict_counts *c = &m->counts;
    const int64_t all = c->empty + c->full + c->partial;
    static const char *const name[3] = {"EMPTY", "PARTIAL", "FULL"};
    const int64_t n[3] = {c->empty, c->partial, c->full};
    int at = 0;
    snprintf(line[at++], MASK_LINE, "tiles    %dx%d: %d x %d = %" PRId64,
             m->tile_q, m->tile_kv, c->rows, c->cols, all);
    for (int i = 0; i < 3; i++)
        snprintf(line[at++], MASK_LINE, "%-8s %12" PRId64 " %6.2f %%", name[i],
                 n[i], percent(n[i], all));
    if (c->kept >= 0)
        snprintf(line[at++], MASK_LINE,
                 "cells    %12" PRId64 " %6.2f %% of %" PRId64
                 " count, sparsity %.2f %%",
                 c->kept, percent(c->kept, c->cells), c->cells,
                 100 - percent(c->kept, c->cells));
    snprintf(line[at++], MASK_LINE, "saved    %12s %6.2f %% of the tiles", "",
             100 * mask_work_saved(m));
    snprintf(line[at++], MASK_LINE, "tier     %.15s%s%.170s", c->tier,
             m->cause[0] ? ": " : "", m->cause);
    return at;
}

/* --- the map -------------------------------------------------------------- */

enum { MAP_ROWS = 48 }; /* lines at most */

static char mark(unsigned verdicts)
{
    return verdicts == FACC_TILE_EMPTY  ? '.'
           : verdicts == FACC_TILE_FULL ? '#'
                                        : '+';
}

/* What the tiles of a character have in common: the union of verdicts. */
static unsigned together(const struct mask_view *m, int row, int rows, int col,
                         int cols)
{
    unsigned all = 0;
    for (int i = row; i < row + rows && i < m->counts.rows; i++)
        for (int j = col; j < col + cols && j < m->counts.cols; j++)
            all |= m->verdicts[(int64_t)i * m->counts.cols + j];
    return all;
}

static int share(int n, int limit)
{
    return n > limit ? (n + limit - 1) / limit : 1;
}

static void print_map(const struct mask_view *m, int width)
{
    const facc_verdict_counts *c = &m->counts;
    const int cols = share(c->cols, width), rows = share(c->rows, MAP_ROWS);
    if (c->rows == 0 || c->cols == 0)
        return;
    printf("\n. EMPTY  + PARTIAL  # FULL; a character is %d x %d tile%s; "
           "q down, kv right\n",
           rows, cols, rows * cols > 1 ? "s" : "");
    for (int i = 0; i < c->rows; i += rows) {
        for (int j = 0; j < c->cols; j += cols)
            putchar(mark(together(m, i, rows, j, cols)));
        putchar('\n');
    }
}

void mask_print_text(const struct mask_view *m, int width)
{
    char line[MASK_LINES][MASK_LINE];
    const int n = mask_lines(m, line);
    printf("mask     %s\n", m->name);
    printf("sizes    %" PRId64 " queries x %" PRId64 " keys, sequence %" PRId64
           ", head %" PRId64 "\n",
           m->sq, m->skv, m->b, m->h);
    for (int i = 0; i < n; i++)
        puts(line[i]);
    print_map(m, width);
}

/* --- JSON ----------------------------------------------------------------- */

enum { JSON_TILES = 1 << 20 }; /* with more the map is left out */

/* These say whether there was memory. */
static bool add_map(cJSON *j, const struct mask_view *m)
{
    const facc_verdict_counts *c = &m->counts;
    if ((int64_t)c->rows * c->cols > JSON_TILES)
        return true;
    cJSON *map = cJSON_AddArrayToObject(j, "map");
    char *row = cli_alloc((size_t)c->cols + 1);
    bool ok = map != NULL;
    for (int i = 0; i < c->rows && ok; i++) {
        for (int k = 0; k < c->cols; k++)
            row[k] = mark(m->verdicts[(int64_t)i * c->cols + k]);
        ok = cJSON_AddItemToArray(map, cJSON_CreateString(row));
    }
    free(row);
    return ok;
}

static bool add_cells(cJSON *j, const struct mask_view *m)
{
    const facc_verdict_counts *c = &m->counts;
    if (c->kept < 0)
        return cJSON_AddNullToObject(j, "kept") &&
               cJSON_AddNullToObject(j, "sparsity");
    return cJSON_AddNumberToObject(j, "kept", (double)c->kept) &&
           cJSON_AddNumberToObject(j, "sparsity",
                                   c->cells ? mask_sparsity(m) : 0);
}

int mask_print_json(const struct mask_view *m)
{
    const facc_verdict_counts *c = &m->counts;
    cJSON *j = cJSON_CreateObject();
    const struct {
        const char *name;
        int64_t value;
    } number[] = {{"b", m->b},           {"h", m->h},
                  {"Sq", m->sq},         {"Skv", m->skv},
                  {"tile_q", m->tile_q}, {"tile_kv", m->tile_kv},
                  {"rows", c->rows},     {"cols", c->cols},
                  {"empty", c->empty},   {"partial", c->partial},
                  {"full", c->full},     {"cells", c->cells}};
    bool ok = cJSON_AddStringToObject(j, "mask", m->name) != NULL;
    for (size_t i = 0; i < sizeof number / sizeof number[0] && ok; i++)
        ok = cJSON_AddNumberToObject(j, number[i].name,
                                     (double)number[i].value) != NULL;
    ok = ok && add_cells(j, m) &&
         cJSON_AddNumberToObject(j, "work_saved", mask_work_saved(m)) &&
         cJSON_AddStringToObject(j, "tier", c->tier) &&
         cJSON_AddStringToObject(j, "tier_cause", m->cause) && add_map(j, m);
    if (ok)
        return cli_print_json(j);
    cJSON_Delete(j);
    return cli_fail("out of memory");
}
