/* Shows the table of `facc bench`: text or JSON on stdout, CSV and a picture
 * in files. In: a bench_table. Called by cmd_bench.c. */
#include "runtime/cli/bench.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/cli/chart.h"

enum { GIGA = 1000 };

/* Slow devices are told in GFLOP/s: what a TFLOP/s is times. */
static double unit_of(const struct bench_table *t)
{
    double most = 0;
    for (int v = 0; v < BENCH_VARIANTS; v++)
        for (int i = 0; i < t->n_lengths; i++)
            most = fmax(most, t->figures[v][i].tflops);
    return most < 1 ? GIGA : 1;
}

static void print_text(const struct bench_table *t)
{
    double unit = unit_of(t);
    printf("device    %s%s%s\n", t->device,
           t->family[0] ? ", kernel family " : "", t->family);
    printf("shape     D %d, %s, %d heads, %d tokens in sequences of each "
           "length\n",
           t->D, t->dtype, t->H, t->tokens);
    printf("%s of the cells that count (below a diagonal: half), medians of "
           "%d rounds\n\n",
           unit > 1 ? "GFLOP/s" : "TFLOP/s", t->rounds);
    printf("%8s", "length");
    for (int v = 0; v < BENCH_VARIANTS; v++)
        printf("%17s", t->names[v]);
    for (int i = 0; i < t->n_lengths; i++) {
        printf("\n%8" PRId64, t->lengths[i]);
        for (int v = 0; v < BENCH_VARIANTS; v++) {
            const double speed = t->figures[v][i].tflops * unit;
            printf("%17.*f", speed < 1 ? 3 : speed < 10 ? 2 : 1, speed);
        }
    }
    putchar('\n');
}

static int print_json(const struct bench_table *t)
{
    cJSON *j = cJSON_CreateObject(), *rows = cJSON_CreateArray();
    cJSON_AddStringToObject(j, "device", t->device);
    cJSON_AddStringToObject(j, "family", t->family);
    cJSON_AddStringToObject(j, "dtype", t->dtype);
    cJSON_AddNumberToObject(j, "rounds", t->rounds);
    cJSON_AddNumberToObject(j, "H", t->H);
    cJSON_AddNumberToObject(j, "D", t->D);
    cJSON_AddItemToObject(j, "rows", rows);
    for (int v = 0; v < BENCH_VARIANTS; v++)
        for (int i = 0; i < t->n_lengths; i++) {
            const struct bench_figure *f = &t->figures[v][i];
            cJSON *r = cJSON_CreateObject();
            cJSON_AddStringToObject(r, "variant", t->names[v]);
            cJSON_AddNumberToObject(r, "B", (double)t->B[i]);
            cJSON_AddNumberToObject(r, "S", (double)t->lengths[i]);
            cJSON_AddNumberToObject(r, "cells", f->cells);
            cJSON_AddNumberToObject(r, "median_ms", f->median);
            cJSON_AddNumberToObject(r, "min_ms", f->min);
            cJSON_AddNumberToObject(r, "max_ms", f->max);
            cJSON_AddNumberToObject(r, "tflops", f->tflops);
            if (t->n_roofs > 0)
                cJSON_AddItemToObject(
                    r, "roofline",
                    roof_json(&t->roofs[i * BENCH_VARIANTS + v]));
            cJSON_AddItemToArray(rows, r);
        }
    return cli_print_json(j);
}

static int write_csv(const struct bench_table *t, const char *path)
{
    FILE *f = fopen(path, "w");
    if (!f)
        return cli_fail("%s: %s", path, strerror(errno));
    fputs("variant,device,family,dtype,B,H,S,D,cells,median_ms,min_ms,max_ms,"
          "tflops\n",
          f);
    for (int v = 0; v < BENCH_VARIANTS; v++)
        for (int i = 0; i < t->n_lengths; i++) {
            const struct bench_figure *x = &t->figures[v][i];
            fprintf(f,
                    "\"%s\",\"%s\",%s,%s,%" PRId64 ",%d,%" PRId64
                    ",%d,%.0f,%.6g,%.6g,%.6g,%.6g\n",
                    t->names[v], t->device, t->family, t->dtype, t->B[i], t->H,
                    t->lengths[i], t->D, x->cells, x->median, x->min, x->max,
                    x->tflops);
        }
    bool bad = ferror(f) != 0;
    if (fclose(f) != 0 || bad)
        return cli_fail("%s: %s", path, strerror(errno));
    return EXIT_OK;
}

static int write_picture(const struct bench_table *t, const char *path)
{
    char subtitle[320];
    double unit = unit_of(t);
    snprintf(subtitle, sizeof subtitle,
             "%s%s%s · %s, head dim %d, %d heads, %d tokens", t->device,
             t->family[0] ? " · " : "", t->family, t->dtype, t->D, t->H,
             t->tokens);
    struct chart c = {.title = "facc: attention variants over sequence length",
                      .subtitle = subtitle,
                      .x_label = "sequence length (tokens)",
                      .y_label = unit > 1 ? "GFLOP/s of cells that count"
                                          : "TFLOP/s of cells that count",
                      .n_points = t->n_lengths,
                      .n_series = BENCH_VARIANTS};
    for (int i = 0; i < t->n_lengths; i++)
        c.x[i] = (double)t->lengths[i];
    for (int v = 0; v < BENCH_VARIANTS; v++) {
        c.series[v].name = t->names[v];
        for (int i = 0; i < t->n_lengths; i++)
            c.series[v].y[i] = t->figures[v][i].tflops * unit;
    }
    return chart_write_svg(&c, path);
}

int bench_report(const struct options *o, const struct bench_table *t)
{
    int rc = EXIT_OK;
    if (o->json)
        rc = print_json(t);
    else
        print_text(t);
    if (!rc && o->csv)
        rc = write_csv(t, o->csv);
    if (!rc && o->picture)
        rc = o->roofline ? roof_write_svg(t->roofs, t->n_roofs, o->picture)
                         : write_picture(t, o->picture);
    return rc;
}
