/* What `facc mask` shows, made by cmd_mask.c, shown by mask_report.c (text,
 * JSON) and picture.c (PNG). */
#ifndef FACC_CLI_MASK_H
#define FACC_CLI_MASK_H

#include "runtime/cli/cli.h"

struct mask_view {
    char name[256]; /* the file or the expression */
    int64_t b, h;
    int64_t sq, skv;
    int tile_q, tile_kv;
    uint8_t *verdicts; /* [rows][cols] */
    uint8_t *cells;    /* [sq][skv], or NULL: too many, or unknown */
    facc_verdict_counts counts;
    char cause[512]; /* of the tier, "" when there is none */
};

/* 1 - tiles that are visited / all tiles; 0 without tiles. */
double mask_work_saved(const struct mask_view *m);
/* Part of the cells that do not count; NaN where that was not found out. */
double mask_sparsity(const struct mask_view *m);

/* width: characters of a line of the map. */
void mask_print_text(const struct mask_view *m, int width);
int mask_print_json(const struct mask_view *m);
/* The lines of counts, as text and picture have them; n < MASK_LINES. */
enum { MASK_LINES = 10, MASK_LINE = 200 };
int mask_lines(const struct mask_view *m, char line[MASK_LINES][MASK_LINE]);

/* picture.c. EXIT_OK or EXIT_FAILED after a message. */
int mask_write_png(const struct mask_view *m, const char *path);

/* font.c: a row of 5 bits of a glyph, bit 4 its left column; row 0 .. 8, two
 * rows below the base line. Bytes that are no ASCII give a box. */
enum { GLYPH_WIDTH = 5, GLYPH_HEIGHT = 9 };
unsigned font_row(unsigned char c, int row);

#endif
