/* Rooflines as text and JSON. In: solved roofs. Called by explain and bench. */
#include "runtime/cli/roofline.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

struct scaled roof_scaled(double v, const char *unit)
{
    static const char *const prefix[] = {"", "k", "M", "G", "T", "P"};
    struct scaled s;
    int i = 0;
    while (v >= 999.5 && i < 5) {
        v /= 1000;
        i++;
    }
    snprintf(s.text, sizeof s.text, "%.*f %s%s",
             v < 9.995   ? 2
             : v < 99.95 ? 1
                         : 0,
             v, prefix[i], unit);
    if (!prefix[i][0] && !unit[0]) /* nothing behind the space */
        s.text[strlen(s.text) - 1] = '\0';
    return s;
}

static struct scaled span(double seconds)
{
    struct scaled s;
    const double us = seconds * 1e6;
    if (us < 999.5)
        snprintf(s.text, sizeof s.text, "%.*f us", us < 99.95, us);
    else if (us < 999.5e3)
        snprintf(s.text, sizeof s.text, "%.3g ms", us * 1e-3);
    else
        snprintf(s.text, sizeof s.text, "%.3g s", seconds);
    return s;
}

static double percent(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

static void print_work(const struct roof *r)
{
    const struct roof_load *l = &r->load;
    static const char *const names[] = {"Q", "K", "V", "O", "LSE", "captured"};
    printf("cells     %s%s of %s count (%.1f %%)%s, %s computed in tiles of %d "
           "x %d\n",
           l->estimated && !l->unknown ? "about " : "",
           roof_scaled(l->kept, "").text, roof_scaled(l->cells, "").text,
           percent(l->kept, l->cells),
           l->unknown ? ", as if there were no mask" : "",
           roof_scaled(l->computed, "").text, l->tile_m, l->tile_n);
    printf("work      %s of cells that count, %s computed\n",
           roof_scaled(l->flops, "FLOP").text,
           roof_scaled(l->work[ROOF_MATH], "FLOP").text);
    printf("bytes     %s at best:",
           roof_scaled(l->work[ROOF_MEMORY], "B").text);
    for (int i = 0; i < 6; i++)
        if (l->tensor_bytes[i] > 0)
            printf(" %s %s%s", names[i],
                   roof_scaled(l->tensor_bytes[i], "B").text,
                   i < 5 && l->tensor_bytes[i + 1] > 0 ? "," : "");
    if (l->kv_share < 0.9995)
        printf("; %.1f %% of K and V are looked at", 100 * l->kv_share);
    printf("\nintensity %.4g FLOP/B; the ridge is at %.4g: ", r->intensity,
           r->ridge);
    if (r->intensity >= r->ridge)
        puts("above it, memory is not the limit");
    else if (r->limiter == ROOF_MEMORY)
        puts("below it, memory limits");
    else /* whole tiles are computed, exponentials, K and V read often */
        printf("below it memory is the limit as a rule, here: %s\n",
               roof_unit_name(&r->machine, r->limiter));
}

static void print_units(const struct roof *r)
{
    const struct roof_machine *m = &r->machine;
    static const char *const what[] = {"FLOP", "values", "B", "B"};
    printf("\n%-14s %12s %15s %12s %8s\n", "unit", "work", "a second",
           "at best", "share");
    for (int u = 0; u < ROOF_UNITS; u++) {
        if (m->rate[u] <= 0)
            continue;
        printf("%-14s %12s %15s %12s %6.1f %%%s\n",
               roof_unit_name(m, (enum roof_unit)u),
               roof_scaled(r->load.work[u], what[u]).text,
               roof_scaled(m->rate[u], what[u]).text, span(r->seconds[u]).text,
               percent(r->seconds[u], r->best),
               (int)r->limiter == u ? "  the limit" : "");
    }
}

void roof_print(const struct roof *r)
{
    const struct roof_machine *m = &r->machine;
    printf("\nroofline  %s, %s: %d %s", m->name, m->source, m->cores,
           m->gpu ? "multiprocessors" : "threads");
    if (m->ghz > 0)
        printf(" at %.2f GHz", m->ghz);
    putchar('\n');
    print_work(r);
    print_units(r);
    if (r->load.busy < 1)
        printf("\nrows of tiles are fewer than %s: %.0f %% are busy\n",
               m->gpu ? "multiprocessors" : "threads", 100 * r->load.busy);
    printf(
        "\nat best   %s, %s: limited by %s\n", span(r->best).text,
        roof_scaled(r->best > 0 ? r->load.flops / r->best : 0, "FLOP/s").text,
        roof_unit_name(m, r->limiter));
    if (r->measured > 0)
        printf("measured  %s, %s: %.1f %% of that\n", span(r->measured).text,
               roof_scaled(r->load.flops / r->measured, "FLOP/s").text,
               percent(r->best, r->measured));
}

void roof_print_table(const struct roof *r, int n)
{
    if (!n)
        return;
    printf("\nroofline  %s, %s; ridge at %.4g FLOP/B\n", r->machine.name,
           r->machine.source, r->ridge);
    printf("%-26s %12s %10s %10s  %-13s %14s %14s %8s\n", "", "FLOP", "bytes",
           "FLOP/B", "limited by", "FLOP/s at best", "measured", "share");
    for (int i = 0; i < n; i++)
        printf("%-26s %12s %10s %10.4g  %-13s %14s %14s %6.1f %%\n", r[i].label,
               roof_scaled(r[i].load.flops, "").text,
               roof_scaled(r[i].load.work[ROOF_MEMORY], "").text,
               r[i].intensity, roof_unit_name(&r[i].machine, r[i].limiter),
               roof_scaled(r[i].best > 0 ? r[i].load.flops / r[i].best : 0, "")
                   .text,
               roof_scaled(
                   r[i].measured > 0 ? r[i].load.flops / r[i].measured : 0, "")
                   .text,
               percent(r[i].best, r[i].measured));
}

static void add_units(cJSON *j, const struct roof *r)
{
    static const char *const names[] = {"math", "exp", "l2", "memory"};
    cJSON *units = cJSON_AddObjectToObject(j, "units");
    for (int u = 0; u < ROOF_UNITS; u++) {
        cJSON *x = cJSON_AddObjectToObject(units, names[u]);
        cJSON_AddStringToObject(x, "name",
                                roof_unit_name(&r->machine, (enum roof_unit)u));
        cJSON_AddNumberToObject(x, "work", r->load.work[u]);
        cJSON_AddNumberToObject(x, "per_second", r->machine.rate[u]);
        cJSON_AddNumberToObject(x, "seconds", r->seconds[u]);
    }
}

cJSON *roof_json(const struct roof *r)
{
    const struct roof_load *l = &r->load;
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "machine", r->machine.name);
    cJSON_AddStringToObject(j, "rates", r->machine.source);
    cJSON_AddNumberToObject(j, "cores", r->machine.cores);
    cJSON_AddNumberToObject(j, "cells", l->cells);
    cJSON_AddNumberToObject(j, "kept", l->kept);
    cJSON_AddNumberToObject(j, "computed", l->computed);
    cJSON_AddBoolToObject(j, "estimated", l->estimated);
    cJSON_AddBoolToObject(j, "mask_asked", !l->unknown);
    cJSON_AddNumberToObject(j, "kv_share", l->kv_share);
    cJSON_AddNumberToObject(j, "tile_m", l->tile_m);
    cJSON_AddNumberToObject(j, "tile_n", l->tile_n);
    cJSON_AddNumberToObject(j, "functions", l->functions);
    cJSON_AddNumberToObject(j, "busy", l->busy);
    cJSON_AddNumberToObject(j, "flops", l->flops);
    cJSON_AddNumberToObject(j, "bytes", l->work[ROOF_MEMORY]);
    cJSON_AddNumberToObject(j, "intensity", r->intensity);
    cJSON_AddNumberToObject(j, "ridge", r->ridge);
    add_units(j, r);
    cJSON_AddStringToObject(j, "limiter",
                            roof_unit_name(&r->machine, r->limiter));
    cJSON_AddNumberToObject(j, "best_ms", r->best * 1e3);
    cJSON_AddNumberToObject(j, "best_tflops",
                            r->best > 0 ? l->flops / r->best * 1e-12 : 0);
    if (r->measured > 0) {
        cJSON_AddNumberToObject(j, "measured_ms", r->measured * 1e3);
        cJSON_AddNumberToObject(j, "measured_tflops",
                                l->flops / r->measured * 1e-12);
        cJSON_AddNumberToObject(j, "share", r->best / r->measured);
    }
    return j;
}
