/* A line chart as SVG, printed as text. In: a struct chart. Out: a file with
 * a linear y axis from 0, an x axis with powers of two at equal distances, a
 * line with points per series, and its name at the right end of the line,
 * which is the legend. Called by facc bench. */
#include "runtime/cli/chart.h"
#include "runtime/cli/svg.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "runtime/cli/cli.h"

enum {
    WIDTH = 1000,
    HEIGHT = 600,
    LEFT = 86,
    RIGHT = 190, /* for the names of the lines */
    TOP = 92,
    BOTTOM = 74,
    LABEL_LINE = 21 /* between two names at least */
};

/* Told apart by most eyes, also where red and green are one (Okabe and Ito,
 * the light ones darker). */
static const char *const colours[CHART_SERIES] = {
    "#1f5fa8", "#d1495b", "#0b8a6a", "#c77700",
    "#8a4fa3", "#4a5568", "#2a9fc9", "#8c6d1f"};
static const char ink[] = "#1d2330", faint[] = "#6b7280", grid[] = "#e4e7ec";

struct frame {
    const struct chart *c;
    FILE *f;
    double x0, x1; /* log2 of the ends of the x axis */
    double top, step;
};

/* --- text ------------------------------------------------------------------
 */

/* 16384 as 16,384. */
static const char *with_commas(double x, char out[32])
{
    char digits[32];
    int n = snprintf(digits, sizeof digits, "%.0f", x), at = 0;
    for (int i = 0; i < n && at < 30; i++) {
        if (i && (n - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = '\0';
    return out;
}

/* --- scales ----------------------------------------------------------------
 */

static double largest(const struct chart *c)
{
    double most = 0;
    for (int s = 0; s < c->n_series; s++)
        for (int i = 0; i < c->n_points; i++)
            if (c->series[s].y[i] > most) /* never of a NaN */
                most = c->series[s].y[i];
    return most;
}

/* Four to ten steps of 1, 2, 2.5 or 5 times a power of ten. */
static void choose_scale(struct frame *w)
{
    static const double nice[] = {1, 2, 2.5, 5, 10};
    double most = largest(w->c);
    if (!(most > 0))
        most = 1;
    double ten = pow(10, floor(log10(most / 5)));
    w->step = 10 * ten;
    for (size_t i = sizeof nice / sizeof nice[0]; i-- > 0;)
        if (most / (nice[i] * ten) <= 9)
            w->step = nice[i] * ten;
    w->top = w->step * ceil(most * 1.02 / w->step);
    w->x0 = log2(w->c->x[0]);
    w->x1 = log2(w->c->x[w->c->n_points - 1]);
    if (!(w->x1 > w->x0)) /* one point: in the middle */
        w->x0 -= 1, w->x1 += 1;
}

static double at_x(const struct frame *w, double x)
{
    double inner = WIDTH - LEFT - RIGHT - 36; /* air on both sides */
    return LEFT + 18 + inner * (log2(x) - w->x0) / (w->x1 - w->x0);
}

static double at_y(const struct frame *w, double y)
{
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * y / w->top;
}

/* --- parts of the picture ----------------------------------------------------
 */

static void draw_axes(const struct frame *w)
{
    const struct chart *c = w->c;
    char t[32];
    for (int i = 0; i * w->step <= w->top * 1.0001; i++) {
        double y = at_y(w, i * w->step);
        fprintf(w->f,
                "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" "
                "stroke=\"%s\"/>\n",
                LEFT, y, WIDTH - RIGHT, y, i ? grid : faint);
        snprintf(t, sizeof t, "%.8g", i * w->step);
        svg_text(w->f, LEFT - 12, y + 5, 15, faint, " text-anchor=\"end\"", t);
    }
    double last = -1e9;
    for (int i = 0; i < c->n_points; i++) {
        double x = at_x(w, c->x[i]), y = HEIGHT - BOTTOM;
        fprintf(w->f,
                "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
                "stroke=\"%s\"/>\n",
                x, y, x, y + 6, faint);
        if (x - last < 58) /* the number would run into the one before */
            continue;
        last = x;
        svg_text(w->f, x, y + 24, 15, faint, " text-anchor=\"middle\"",
                 with_commas(c->x[i], t));
    }
    svg_text(w->f, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 20, 16, ink,
             " text-anchor=\"middle\"", c->x_label);
    char turn[80];
    double middle = (TOP + HEIGHT - BOTTOM) / 2.0;
    snprintf(turn, sizeof turn,
             " text-anchor=\"middle\" transform=\"rotate(-90 26 %.1f)\"",
             middle);
    svg_text(w->f, 26, middle, 16, ink, turn, c->y_label);
}

static void draw_line(const struct frame *w, int s)
{
    const struct chart *c = w->c;
    const double *v = c->series[s].y;
    bool open = false;
    fprintf(w->f,
            "<path fill=\"none\" stroke=\"%s\" stroke-width=\"2.5\" "
            "stroke-linejoin=\"round\" stroke-linecap=\"round\" d=\"",
            colours[s]);
    for (int i = 0; i < c->n_points; i++) {
        if (!isnan(v[i]))
            fprintf(w->f, "%c%.1f %.1f", open ? 'L' : 'M', at_x(w, c->x[i]),
                    at_y(w, v[i]));
        open = !isnan(v[i]);
    }
    fputs("\"/>\n", w->f);
    for (int i = 0; i < c->n_points; i++)
        if (!isnan(v[i]))
            fprintf(w->f,
                    "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\" "
                    "stroke=\"#ffffff\" stroke-width=\"1.5\"/>\n",
                    at_x(w, c->x[i]), at_y(w, v[i]), colours[s]);
}

/* The name of a line, at its last point. */
struct label {
    int series;
    double x, y; /* of the point */
    double at;   /* y of the text */
};

static int find_labels(const struct frame *w, struct label *l)
{
    int n = 0;
    for (int s = 0; s < w->c->n_series; s++) {
        int i = w->c->n_points - 1;
        while (i >= 0 && isnan(w->c->series[s].y[i]))
            i--;
        if (i < 0)
            continue;
        double x = at_x(w, w->c->x[i]), y = at_y(w, w->c->series[s].y[i]);
        int k = n++; /* sorted from the top */
        for (; k > 0 && l[k - 1].y > y; k--)
            l[k] = l[k - 1];
        l[k] = (struct label){s, x, y, y};
    }
    return n;
}

/* Moves labels that would overlap apart, groups around their middle, and all
 * inside the frame. */
static void spread_labels(struct label *l, int n)
{
    const double low = HEIGHT - BOTTOM;
    for (int pass = 0; pass < 200; pass++)
        for (int i = 0; i + 1 < n; i++) {
            double lack = LABEL_LINE - (l[i + 1].at - l[i].at);
            if (lack > 0)
                l[i].at -= lack / 2, l[i + 1].at += lack / 2;
        }
    for (int i = n; i-- > 0;) {
        double most = i + 1 < n ? l[i + 1].at - LABEL_LINE : low;
        if (l[i].at > most)
            l[i].at = most;
    }
    for (int i = 0; i < n; i++) {
        double least = i ? l[i - 1].at + LABEL_LINE : TOP;
        if (l[i].at < least)
            l[i].at = least;
    }
}

static void draw_labels(const struct frame *w)
{
    struct label l[CHART_SERIES];
    int n = find_labels(w, l);
    spread_labels(l, n);
    for (int i = 0; i < n; i++) {
        double x = WIDTH - RIGHT + 18;
        const char *colour = colours[l[i].series];
        fprintf(w->f,
                "<path fill=\"none\" stroke=\"%s\" stroke-width=\"1\" "
                "opacity=\"0.55\" d=\"M%.1f %.1fL%.1f %.1fL%.1f %.1f\"/>\n",
                colour, l[i].x + 6, l[i].y, x - 12, l[i].at, x - 5, l[i].at);
        svg_text(w->f, x, l[i].at + 5, 16, colour, " font-weight=\"600\"",
                 w->c->series[l[i].series].name);
    }
}

static void draw(struct frame *w)
{
    const struct chart *c = w->c;
    choose_scale(w);
    svg_begin(w->f, WIDTH, HEIGHT);
    svg_text(w->f, LEFT, 40, 22, ink, " font-weight=\"600\"", c->title);
    svg_text(w->f, LEFT, 66, 15, faint, "", c->subtitle);
    draw_axes(w);
    for (int s = c->n_series; s-- > 0;) /* the first lies on top */
        draw_line(w, s);
    draw_labels(w);
}

int chart_write_svg(const struct chart *c, const char *path)
{
    struct frame w = {.c = c, .f = fopen(path, "w")};
    if (!w.f)
        return cli_fail("%s: %s", path, strerror(errno));
    draw(&w);
    return svg_end(w.f, path);
}
