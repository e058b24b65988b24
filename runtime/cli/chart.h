/* A line chart as SVG. */
#ifndef FACC_CLI_CHART_H
#define FACC_CLI_CHART_H

enum { CHART_SERIES = 8, CHART_POINTS = 24 };

/* Lines over one x axis, which is logarithmic to base 2. */
struct chart {
    const char *title, *subtitle, *x_label, *y_label;
    int n_points, n_series;
    double x[CHART_POINTS]; /* rising, all positive */
    struct {
        const char *name;
        double y[CHART_POINTS]; /* not below 0; NaN: no point */
    } series[CHART_SERIES];
};

/* Writes the picture to a file. EXIT_OK, or EXIT_FAILED after a message. */
int chart_write_svg(const struct chart *c, const char *path);

#endif
