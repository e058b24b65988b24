/* The roofline as SVG: FLOP/s over intensity, both by powers of ten; memory's
 * slope and the flat roofs of the other units, a hollow point for each call at
 * its best and a filled one where it was measured. In: roofs of one machine. */
#include "runtime/cli/roofline.h"
#include "runtime/cli/svg.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    WIDTH = 1000,
    HEIGHT = 640,
    LEFT = 96,
    RIGHT = 250,
    TOP = 92,
    BOTTOM = 78
};
enum { N_COLOURS = 8, LABEL_LINE = 19 };
static const char *const colours[N_COLOURS] = {"#1f5fa8", "#d1495b", "#0b8a6a",
                                               "#c77700", "#8a4fa3", "#4a5568",
                                               "#2a9fc9", "#8c6d1f"};
static const char ink[] = "#1d2330", faint[] = "#6b7280", grid[] = "#e4e7ec";

struct view {
    FILE *f;
    double x0, x1, y0, y1; /* log10 of the axes' ends */
};

static double at_x(const struct view *w, double x)
{
    return LEFT + (WIDTH - LEFT - RIGHT) * (log10(x) - w->x0) / (w->x1 - w->x0);
}

static double at_y(const struct view *w, double y)
{
    return HEIGHT - BOTTOM -
           (HEIGHT - TOP - BOTTOM) * (log10(y) - w->y0) / (w->y1 - w->y0);
}

static void line(const struct view *w, double x1, double y1, double x2,
                 double y2, const char *colour, double width, const char *more)
{
    fprintf(w->f,
            "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
            "stroke=\"%s\" stroke-width=\"%.1f\"%s/>\n",
            x1, y1, x2, y2, colour, width, more);
}

/* ---- scales
 * ------------------------------------------------------------------- */

static void widen(double *low, double *high, double v)
{
    if (v > 0 && v < *low)
        *low = v;
    if (v > 0 && v > *high)
        *high = v;
}

static void choose_scales(struct view *w, const struct roof *r, int n)
{
    const double math = r->machine.rate[ROOF_MATH];
    double xl = r->ridge / 10, xh = r->ridge * 10, yl = math / 10, yh = math;
    for (int i = 0; i < n; i++) {
        widen(&xl, &xh, r[i].intensity);
        if (r[i].best > 0)
            widen(&yl, &yh, r[i].load.flops / r[i].best);
        if (r[i].measured > 0)
            widen(&yl, &yh, r[i].load.flops / r[i].measured);
    }
    w->x0 = floor(log10(xl) * 2 - 0.2) / 2;
    w->x1 = ceil(log10(xh) * 2 + 0.2) / 2;
    w->y0 = floor(log10(yl) * 2 - 0.2) / 2;
    w->y1 = ceil(log10(yh) * 2 + 0.4) / 2;
}

/* 1e13 as "10 T". */
static const char *power(int e, char out[24])
{
    static const char *const prefix[] = {"", " k", " M", " G", " T", " P"};
    if (e < 0 || e >= 18)
        snprintf(out, 24, "1e%d", e);
    else
        snprintf(out, 24, "%.0f%s", pow(10, e % 3), prefix[e / 3]);
    return out;
}

static void draw_axes(const struct view *w)
{
    char t[24];
    for (int e = (int)ceil(w->x0); e <= w->x1; e++) {
        const double x = at_x(w, pow(10, e));
        line(w, x, TOP, x, HEIGHT - BOTTOM, grid, 1, "");
        svg_text(w->f, x, HEIGHT - BOTTOM + 22, 15, faint,
                 " text-anchor=\"middle\"", power(e, t));
    }
    for (int e = (int)ceil(w->y0); e <= w->y1; e++) {
        const double y = at_y(w, pow(10, e));
        line(w, LEFT, y, WIDTH - RIGHT, y, grid, 1, "");
        svg_text(w->f, LEFT - 10, y + 5, 15, faint, " text-anchor=\"end\"",
                 power(e, t));
    }
    svg_text(w->f, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 22, 16, ink,
             " text-anchor=\"middle\"",
             "arithmetic intensity (FLOP of cells that count / byte)");
    const double middle = (TOP + HEIGHT - BOTTOM) / 2.0;
    char turn[80];
    snprintf(turn, sizeof turn,
             " text-anchor=\"middle\" transform=\"rotate(-90 26 %.1f)\"",
             middle);
    svg_text(w->f, 26, middle, 16, ink, turn, "FLOP/s of cells that count");
}

/* ---- roofs
 * -------------------------------------------------------------------- */

/* Along memory's slope, above its middle. */
static void draw_slope_label(const struct view *w, double from, double to,
                             double memory, const char *label)
{
    const double x = (at_x(w, from) + at_x(w, to)) / 2;
    const double y = (at_y(w, from * memory) + at_y(w, to * memory)) / 2;
    const double angle =
        -atan2(at_y(w, 1) - at_y(w, 10), at_x(w, 10) - at_x(w, 1)) * 180 /
        3.14159265358979;
    char turn[128];
    snprintf(turn, sizeof turn,
             " text-anchor=\"middle\" transform=\"rotate(%.1f %.1f %.1f)\"",
             angle, x, y);
    svg_text(w->f, x, y - 10, 15, ink, turn, label);
}

/* From the left end up to the ridge, then flat. */
static void draw_roof(const struct view *w, const struct roof *r)
{
    const struct roof_machine *m = &r->machine;
    const double memory = m->rate[ROOF_MEMORY], math = m->rate[ROOF_MATH];
    double x = pow(10, w->x0), y = x * memory;
    char label[96];
    if (y < pow(10, w->y0)) {
        y = pow(10, w->y0);
        x = y / memory;
    }
    fprintf(w->f,
            "<path fill=\"none\" stroke=\"%s\" stroke-width=\"3\" "
            "stroke-linejoin=\"round\" d=\"M%.1f %.1fL%.1f %.1fL%d %.1f\"/>\n",
            ink, at_x(w, x), at_y(w, y), at_x(w, r->ridge), at_y(w, math),
            WIDTH - RIGHT, at_y(w, math));
    line(w, at_x(w, r->ridge), at_y(w, math), at_x(w, r->ridge),
         HEIGHT - BOTTOM, faint, 1, " stroke-dasharray=\"2 4\"");
    snprintf(label, sizeof label, "ridge %.0f", r->ridge);
    svg_text(w->f, at_x(w, r->ridge) + 6, HEIGHT - BOTTOM - 8, 14, faint, "",
             label);
    snprintf(label, sizeof label, "%s %s", roof_unit_name(m, ROOF_MEMORY),
             roof_scaled(memory, "B/s").text);
    draw_slope_label(w, x, r->ridge, memory, label);
}

struct flat {
    double y;
    const char *colour;
    char label[96];
};

/* What a call could reach if this unit were alone; of the unit that multiplies
 * where that is well below its peak: tiles are computed whole, and there may be
 * too few for all cores. */
static int unit_roof(const struct view *w, const struct roof *r,
                     enum roof_unit u, struct flat *f)
{
    const bool math = u == ROOF_MATH;
    if (r->seconds[u] <= 0)
        return 0;
    const double speed = r->load.flops / r->seconds[u];
    if (speed <= pow(10, w->y0) || speed >= pow(10, w->y1) ||
        (math && speed > 0.9 * r->machine.rate[ROOF_MATH]))
        return 0;
    f->y = at_y(w, speed);
    f->colour = faint;
    snprintf(f->label, sizeof f->label, "%s%s %s",
             roof_unit_name(&r->machine, u), math ? ", in tiles" : "",
             roof_scaled(speed, "FLOP/s").text);
    line(w, LEFT, f->y, WIDTH - RIGHT, f->y, faint, 1.5,
         " stroke-dasharray=\"7 5\"");
    return 1;
}

/* The peak of the unit that multiplies, and of one call the other units' roofs;
 * labels on the right, from above, none on another. */
static void draw_flat_roofs(const struct view *w, const struct roof *r, int n)
{
    enum { APART = 18 };
    struct flat f[4];
    const double math = r->machine.rate[ROOF_MATH];
    int count = 1;
    f[0].y = at_y(w, math);
    f[0].colour = ink;
    snprintf(f[0].label, sizeof f[0].label, "%s %s",
             roof_unit_name(&r->machine, ROOF_MATH),
             roof_scaled(math, "FLOP/s").text);
    if (n == 1) {
        count += unit_roof(w, r, ROOF_EXP, &f[count]);
        count += unit_roof(w, r, ROOF_L2, &f[count]);
        count += unit_roof(w, r, ROOF_MATH, &f[count]);
    }
    for (int i = 1; i < count; i++)
        for (int j = i; j > 0 && f[j].y < f[j - 1].y; j--) {
            const struct flat swapped = f[j];
            f[j] = f[j - 1];
            f[j - 1] = swapped;
        }
    double y = 0;
    for (int i = 0; i < count; i++) {
        y = fmax(f[i].y + 5, y + APART);
        if (n == 1)
            svg_text(w->f, WIDTH - RIGHT + 8, y, 13, f[i].colour, "",
                     f[i].label);
        else /* the margin has the legend */
            svg_text(w->f, WIDTH - RIGHT, f[i].y - 8, 15, ink,
                     " text-anchor=\"end\"", f[i].label);
    }
}

/* ---- points
 * ------------------------------------------------------------------- */

static void point(const struct view *w, double x, double y, const char *colour,
                  bool filled)
{
    fprintf(w->f,
            "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\" fill=\"%s\" stroke=\"%s\" "
            "stroke-width=\"1.8\"/>\n",
            x, y, filled ? colour : "#ffffff", colour);
}

static void draw_points(const struct view *w, const struct roof *r, int n)
{
    for (int i = 0; i < n; i++) {
        const char *colour = colours[r[i].group % N_COLOURS];
        if (r[i].intensity <= 0 || r[i].best <= 0)
            continue;
        const double x = at_x(w, r[i].intensity);
        const double best = at_y(w, r[i].load.flops / r[i].best);
        if (r[i].measured > 0) {
            const double y = at_y(w, r[i].load.flops / r[i].measured);
            line(w, x, best, x, y, colour, 1.2, " opacity=\"0.6\"");
            point(w, x, y, colour, true);
        }
        point(w, x, best, colour, false);
    }
}

/* One call, which the title names. */
static void draw_key(const struct view *w, const struct roof *r)
{
    const char *colour = colours[r->group % N_COLOURS];
    double x = WIDTH - RIGHT + 13;
    point(w, x, 62, colour, false);
    svg_text(w->f, x + 12, 66, 13, faint, "", "at best");
    if (r->measured <= 0)
        return;
    x += 84;
    point(w, x, 62, colour, true);
    svg_text(w->f, x + 12, 66, 13, faint, "", "measured");
}

/* A name for each colour: what stands before the last comma of many. */
static void draw_legend(const struct view *w, const struct roof *r, int n)
{
    const double x = WIDTH - RIGHT + 16;
    double y = TOP + 8;
    unsigned seen = 0;
    for (int i = 0; i < n; i++) {
        char label[32];
        const int colour = r[i].group % N_COLOURS;
        if (seen & 1u << colour)
            continue;
        seen |= 1u << colour;
        snprintf(label, sizeof label, "%.28s", r[i].label);
        char *comma = strrchr(label, ',');
        if (comma)
            *comma = '\0';
        point(w, x + 2, y - 4, colours[colour], r[i].measured > 0);
        svg_text(w->f, x + 14, y, 13, ink, "", label);
        y += LABEL_LINE;
    }
    y += LABEL_LINE / 2.0;
    svg_text(w->f, x, y, 13, faint, "", "hollow: at best");
    if (r->measured > 0)
        svg_text(w->f, x, y + LABEL_LINE, 13, faint, "", "filled: measured");
}

static void draw(struct view *w, const struct roof *r, int n)
{
    char subtitle[320];
    choose_scales(w, r, n);
    svg_begin(w->f, WIDTH, HEIGHT);
    snprintf(subtitle, sizeof subtitle, "%s (%s) · limited by %s",
             r->machine.name, r->machine.source,
             roof_unit_name(&r->machine, r->limiter));
    svg_text(w->f, LEFT, 40, 22, ink, " font-weight=\"600\"",
             n == 1 ? r->label : "facc: roofline");
    if (n > 1)
        snprintf(subtitle, sizeof subtitle, "%s (%s)", r->machine.name,
                 r->machine.source);
    svg_text(w->f, LEFT, 66, 15, faint, "", subtitle);
    draw_axes(w);
    draw_flat_roofs(w, r, n);
    draw_roof(w, r);
    draw_points(w, r, n);
    if (n == 1)
        draw_key(w, r);
    else
        draw_legend(w, r, n);
}

int roof_write_svg(const struct roof *r, int n, const char *path)
{
    struct view w = {.f = n > 0 ? fopen(path, "w") : NULL};
    if (n < 1)
        return cli_fail("%s: there is nothing to draw", path);
    if (!w.f)
        return cli_fail("%s: %s", path, strerror(errno));
    draw(&w, r, n);
    return svg_end(w.f, path);
}
