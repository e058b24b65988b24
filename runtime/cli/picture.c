/* A mask as a PNG: one colour scale for the share of cells that count, its
 * hue by the verdict of the tile, the grid of tiles over it, axes, a legend
 * and the counts. In: a mask_view. Out: a file. Called by cmd_mask.c. */
#include "runtime/cli/mask.h"

#include <errno.h>
#include <inttypes.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct colour {
    uint8_t r, g, b;
};

/* From no cell to all cells; an EMPTY tile with cells that count would be a
 * defect of facc, hence the red. */
static const struct colour scale[4][2] = {
    [FACC_TILE_EMPTY] = {{240, 241, 243}, {200, 0, 0}},
    [FACC_TILE_FULL] = {{214, 228, 245}, {38, 84, 148}},
    [FACC_TILE_PARTIAL] = {{252, 231, 200}, {196, 98, 16}}};
static const struct colour ink = {32, 34, 38}, paper = {255, 255, 255},
                           faint = {120, 124, 130};

enum {
    MAP_SIZE = 1024, /* points of the longer side at most */
    LEFT = 84,
    TOP = 62,
    RIGHT = 24,
    FONT = 2, /* points of a point of a letter */
    ADVANCE = FONT * (GLYPH_WIDTH + 1),
    LINE = FONT * (GLYPH_HEIGHT + 2)
};

struct picture {
    const struct mask_view *m;
    int width, height;
    int map_w, map_h;
    /* A point of the map is `down` cells wide and high, or a cell `up` points;
     * the other is 1. */
    int64_t down;
    int up;
    struct colour *point; /* [height][width] */
};

/* --- points, letters ------------------------------------------------------ */

static void fill(struct picture *p, int x0, int y0, int w, int h,
                 struct colour c)
{
    for (int y = y0 < 0 ? 0 : y0; y < y0 + h && y < p->height; y++)
        for (int x = x0 < 0 ? 0 : x0; x < x0 + w && x < p->width; x++)
            p->point[(size_t)y * (size_t)p->width + (size_t)x] = c;
}

static void text(struct picture *p, int x, int y, struct colour c,
                 const char *s)
{
    for (; *s; s++, x += ADVANCE)
        for (int row = 0; row < GLYPH_HEIGHT; row++)
            for (int k = 0; k < GLYPH_WIDTH; k++)
                if (font_row((unsigned char)*s, row) >> (GLYPH_WIDTH - 1 - k) &
                    1)
                    fill(p, x + k * FONT, y + row * FONT, FONT, FONT, c);
}

static int text_width(const char *s)
{
    return (int)strlen(s) * ADVANCE;
}

static uint8_t between(uint8_t a, uint8_t b, double t)
{
    return (uint8_t)(a + (b - a) * t + 0.5);
}

static struct colour mix(struct colour a, struct colour b, double t)
{
    return (struct colour){between(a.r, b.r, t), between(a.g, b.g, t),
                           between(a.b, b.b, t)};
}

/* --- the map -------------------------------------------------------------- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Cells q0 .. q1 - 1, kv0 .. kv1 - 1, all of one tile. */
static double share(const struct mask_view *m, unsigned verdict, int64_t q0,
                    int64_t q1, int64_t kv0, int64_t kv1)
{
    if (!m->cells)
        return verdict == FACC_TILE_FULL    ? 1
               : verdict == FACC_TILE_EMPTY ? 0
                                            : 0.5;
    int64_t n = 0;
    for (int64_t q = q0; q < q1; q++) {
        const uint8_t *row = m->cells + q * m->skv;
        for (int64_t kv = kv0; kv < kv1; kv++)
            n += row[kv];
    }
    return (double)n / ((double)(q1 - q0) * (double)(kv1 - kv0));
}

/* The mean over the tiles that a point touches. */
static struct colour point_colour(const struct picture *p, int x, int y)
{
    const struct mask_view *m = p->m;
    const int64_t q0 = y / p->up * p->down, kv0 = x / p->up * p->down;
    const int64_t q1 = least(q0 + p->down, m->sq);
    const int64_t kv1 = least(kv0 + p->down, m->skv);
    double r = 0, g = 0, b = 0, all = 0;
    for (int64_t q = q0, q_end; q < q1; q = q_end) {
        const int64_t i = q / m->tile_q;
        q_end = least(q1, (i + 1) * m->tile_q);
        for (int64_t kv = kv0, kv_end; kv < kv1; kv = kv_end) {
            const int64_t j = kv / m->tile_kv;
            kv_end = least(kv1, (j + 1) * m->tile_kv);
            const unsigned v = m->verdicts[i * m->counts.cols + j];
            const struct colour c = mix(scale[v][0], scale[v][1],
                                        share(m, v, q, q_end, kv, kv_end));
            const double weight = (double)(q_end - q) * (double)(kv_end - kv);
            r += weight * c.r;
            g += weight * c.g;
            b += weight * c.b;
            all += weight;
        }
    }
    return (struct colour){(uint8_t)(r / all + 0.5), (uint8_t)(g / all + 0.5),
                           (uint8_t)(b / all + 0.5)};
}

static void draw_cells(struct picture *p)
{
    for (int y = 0; y < p->map_h; y += p->up)
        for (int x = 0; x < p->map_w; x += p->up)
            fill(p, LEFT + x, TOP + y, p->up, p->up, point_colour(p, x, y));
}

/* Where cell n begins on the map. */
static int at(const struct picture *p, int64_t n)
{
    return (int)(n / p->down) * p->up;
}

static void shade(struct picture *p, int x, int y, double strength)
{
    struct colour *c = &p->point[(size_t)y * (size_t)p->width + (size_t)x];
    *c = mix(*c, ink, strength);
}

/* Of lines that are so many points apart; 0: no room for lines. */
static double grid_strength(int apart)
{
    enum { LEAST = 6, ENOUGH = 24 };
    if (apart < LEAST)
        return 0;
    return apart >= ENOUGH ? 0.3 : 0.1 + 0.2 * (apart - LEAST) / ENOUGH;
}

/* Lines between tiles. */
static void draw_grid(struct picture *p)
{
    const struct mask_view *m = p->m;
    const double rows = grid_strength(at(p, m->tile_q));
    const double cols = grid_strength(at(p, m->tile_kv));
    for (int64_t q = m->tile_q; q < m->sq && rows > 0; q += m->tile_q)
        for (int x = 0; x < p->map_w; x++)
            shade(p, LEFT + x, TOP + at(p, q), rows);
    for (int64_t kv = m->tile_kv; kv < m->skv && cols > 0; kv += m->tile_kv)
        for (int y = 0; y < p->map_h; y++)
            shade(p, LEFT + at(p, kv), TOP + y, cols);
    fill(p, LEFT - 1, TOP - 1, p->map_w + 2, 1, faint);
    fill(p, LEFT - 1, TOP + p->map_h, p->map_w + 2, 1, faint);
    fill(p, LEFT - 1, TOP, 1, p->map_h, faint);
    fill(p, LEFT + p->map_w, TOP, 1, p->map_h, faint);
}

/* --- what is around it ---------------------------------------------------- */

/* A power of two, so that about `room` points lie between ticks. */
static int64_t tick_step(const struct picture *p, int room)
{
    int64_t step = 1;
    while (at(p, step) < room)
        step *= 2;
    return step;
}

/* 131072 is "128k" where ticks are multiples of that sort. */
static void tick_label(char to[32], int64_t n, int64_t step)
{
    if (step >= 1 << 15)
        snprintf(to, 32, "%" PRId64 "k", n >> 10);
    else
        snprintf(to, 32, "%" PRId64, n);
}

/* A line of 14 points with a head, to the right or down. */
static void arrow(struct picture *p, int x, int y, bool right)
{
    enum { LENGTH = 14, HEAD = 5 };
    for (int i = 0; i < LENGTH; i++) {
        const int from_tip = LENGTH - 1 - i;
        const int half = from_tip < HEAD ? from_tip : 0;
        if (right)
            fill(p, x + i, y + 6 - half, 1, 2 * half + 2, ink);
        else
            fill(p, x - half, y + i, 2 * half + 2, 1, ink);
    }
}

static void draw_axes(struct picture *p)
{
    const struct mask_view *m = p->m;
    char label[32];
    int64_t step = tick_step(p, 110);
    for (int64_t kv = 0; kv < m->skv; kv += step) {
        tick_label(label, kv, step);
        fill(p, LEFT + at(p, kv), TOP - 7, 1, 6, faint);
        text(p, LEFT + at(p, kv) + 3, TOP - 24, faint, label);
    }
    step = tick_step(p, 60);
    for (int64_t q = 0; q < m->sq; q += step) {
        tick_label(label, q, step);
        fill(p, LEFT - 7, TOP + at(p, q), 6, 1, faint);
        text(p, LEFT - 8 - text_width(label), TOP + at(p, q) + 3, faint, label);
    }
    text(p, 8, TOP - 24, ink, "q");
    arrow(p, 8 + ADVANCE + 8, TOP - 24, false);
    text(p, p->width - RIGHT - 4 * ADVANCE, 8, ink, "kv");
    arrow(p, p->width - RIGHT - ADVANCE, 9, true);
}

static void draw_title(struct picture *p)
{
    char line[400];
    const struct mask_view *m = p->m;
    snprintf(line, sizeof line, "%s   b %" PRId64 " h %" PRId64, m->name, m->b,
             m->h);
    const int room = (p->width - RIGHT - 5 * ADVANCE) / ADVANCE;
    if ((int)strlen(line) > room)
        memcpy(line + room - 3, "...", sizeof "...");
    text(p, 8, 8, ink, line);
}

/* --- below: what colours mean, and counts --------------------------------- */

/* From no cell to all cells of a verdict. */
static int legend_entry(struct picture *p, int x, int y, unsigned verdict,
                        const char *what)
{
    enum { BAR = 40 };
    for (int i = 0; i < BAR; i++) {
        const double t = verdict == FACC_TILE_EMPTY  ? 0
                         : verdict == FACC_TILE_FULL ? 1
                                                     : (double)i / (BAR - 1);
        fill(p, x + i, y, 1, 14, mix(scale[verdict][0], scale[verdict][1], t));
    }
    text(p, x + BAR + 8, y, ink, what);
    return x + BAR + 8 + text_width(what) + 20;
}

static void legend_text(const struct mask_view *m, unsigned verdict, char *to,
                        size_t size)
{
    const facc_verdict_counts *c = &m->counts;
    const int64_t all = c->empty + c->partial + c->full;
    const int64_t n = verdict == FACC_TILE_EMPTY  ? c->empty
                      : verdict == FACC_TILE_FULL ? c->full
                                                  : c->partial;
    snprintf(to, size, "%s %" PRId64 " (%.1f %%)",
             verdict == FACC_TILE_EMPTY  ? "EMPTY"
             : verdict == FACC_TILE_FULL ? "FULL"
                                         : "PARTIAL",
             n, 100 * (double)n / (double)all);
}

/* The lines below the legend. */
enum { LINES = 3 };
static void counts_text(const struct mask_view *m, char to[LINES][MASK_LINE])
{
    const facc_verdict_counts *c = &m->counts;
    snprintf(to[0], MASK_LINE, "%d x %d tiles of %d x %d, %.1f %% work saved",
             c->rows, c->cols, m->tile_q, m->tile_kv, 100 * mask_work_saved(m));
    if (c->kept >= 0)
        snprintf(to[1], MASK_LINE,
                 "%" PRId64 " of %" PRId64 " x %" PRId64
                 " cells count, sparsity %.1f %%",
                 c->kept, m->sq, m->skv, 100 * mask_sparsity(m));
    else
        snprintf(to[1], MASK_LINE, "%" PRId64 " x %" PRId64 " cells", m->sq,
                 m->skv);
    snprintf(to[2], MASK_LINE, "tier %.15s%s%.150s", c->tier,
             m->cause[0] ? ": " : "", m->cause);
}

static const unsigned legend_order[3] = {FACC_TILE_EMPTY, FACC_TILE_PARTIAL,
                                         FACC_TILE_FULL};

static void draw_legend(struct picture *p)
{
    char line[LINES][MASK_LINE];
    int x = 8, y = TOP + p->map_h + 16;
    for (int i = 0; i < 3; i++) {
        legend_text(p->m, legend_order[i], line[0], MASK_LINE);
        x = legend_entry(p, x, y, legend_order[i], line[0]);
    }
    counts_text(p->m, line);
    for (int i = 0; i < LINES; i++)
        text(p, 8, y + (i + 1) * LINE + 4, ink, line[i]);
}

/* --- the file ------------------------------------------------------------- */

/* For the legend, and the longest line within reason. */
static int least_width(const struct mask_view *m)
{
    char line[LINES][MASK_LINE];
    int legend = 8, longest = 0;
    for (int i = 0; i < 3; i++) {
        legend_text(m, legend_order[i], line[0], MASK_LINE);
        legend += 68 + text_width(line[0]);
    }
    counts_text(m, line);
    for (int i = 0; i < LINES; i++)
        if (text_width(line[i]) + 16 > longest)
            longest = text_width(line[i]) + 16;
    const int limit = LEFT + MAP_SIZE + RIGHT;
    longest = longest < limit ? longest : limit;
    return legend > longest ? legend : longest;
}

static void lay_out(struct picture *p)
{
    const struct mask_view *m = p->m;
    const int64_t longer = m->sq > m->skv ? m->sq : m->skv;
    p->down = (longer + MAP_SIZE - 1) / MAP_SIZE;
    p->up = longer <= MAP_SIZE / 2 ? (int)(MAP_SIZE / 2 / longer) : 1;
    p->map_w = (int)((m->skv + p->down - 1) / p->down) * p->up;
    p->map_h = (int)((m->sq + p->down - 1) / p->down) * p->up;
    p->width = LEFT + p->map_w + RIGHT;
    if (p->width < least_width(m))
        p->width = least_width(m);
    p->height = TOP + p->map_h + 16 + (LINES + 1) * LINE + 10;
}

static bool write_rows(FILE *f, const struct picture *p)
{
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)p->width,
                       .height = (png_uint_32)p->height,
                       .format = PNG_FORMAT_RGB};
    _Static_assert(sizeof(struct colour) == 3, "RGB");
    const bool ok = png_image_write_to_stdio(&image, f, 0, p->point, 0, NULL);
    png_image_free(&image);
    return ok;
}

int mask_write_png(const struct mask_view *m, const char *path)
{
    struct picture p = {.m = m};
    if (m->sq == 0 || m->skv == 0)
        return cli_fail("a mask of %" PRId64 " x %" PRId64 " cells has no "
                        "picture",
                        m->sq, m->skv);
    FILE *f = fopen(path, "wb");
    if (!f)
        return cli_fail("%s: %s", path, strerror(errno));
    lay_out(&p);
    p.point = cli_alloc((size_t)p.width * (size_t)p.height * sizeof *p.point);
    fill(&p, 0, 0, p.width, p.height, paper);
    draw_cells(&p);
    draw_grid(&p);
    draw_axes(&p);
    draw_title(&p);
    draw_legend(&p);
    errno = 0;
    bool ok = write_rows(f, &p);
    free(p.point);
    if (fclose(f) || !ok)
        return cli_fail("%s: writing failed: %s", path,
                        errno ? strerror(errno) : "libpng");
    return EXIT_OK;
}
