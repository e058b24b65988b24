/* Verdicts of the CPU attention's tiles. In: the program's verdicts, the
 * classes of blocks from outside. Out: EMPTY tiles that nobody looks at, FULL
 * ones that need no mask, and for the others what block lists say of each
 * cell. Called by cpu_tile.c for every tile. */
#include "runtime/cpu/cpu_mask.h"

#include <stdlib.h>
#include <string.h>

/* Columns that are first asked about as a whole: 32 tiles. */
enum { STRIP = 32 * CPU_TILE_N };

bool cpu_mask_open(struct cpu_mask *m, const struct cpu_call *call)
{
    *m = (struct cpu_mask){.call = call};
    if (call->env.classes != NULL) {
        m->given = malloc((size_t)CPU_TILE_M * CPU_TILE_N);
        if (m->given == NULL)
            return false;
    }
    if (!eval_plan_has_mask(call->plan))
        return true;
    m->verdicts = verdict_state_new(
        call->verdicts, call->f64 ? EVAL_F64 : EVAL_F32, &call->env.env);
    return m->verdicts != NULL;
}

void cpu_mask_close(struct cpu_mask *m)
{
    verdict_state_free(m->verdicts);
    free(m->given);
}

void cpu_mask_head(struct cpu_mask *m, int b, int h)
{
    if (m->verdicts != NULL)
        verdict_state_head(m->verdicts, b, h);
    m->classes = cpu_env_classes(&m->call->env, &m->call->size, b, h);
    m->kv_len = eval_env_len(&m->call->env.env, true, b);
    m->skip_until = 0;
}

/* What the program says. Wide strips are asked about first, so that long rows
 * of EMPTY tiles cost little. */
static enum verdict of_program(struct cpu_mask *m, int q0, int rows, int kv0,
                               int n)
{
    if (m->verdicts == NULL)
        return VERDICT_FULL;
    if (kv0 < m->skip_until)
        return VERDICT_EMPTY;
    int64_t end =
        kv0 + (int64_t)STRIP < m->kv_len ? kv0 + (int64_t)STRIP : m->kv_len;
    if (kv0 % STRIP == 0 && verdict_eval_whole(m->verdicts, q0, q0 + rows - 1,
                                               kv0, end - 1) == VERDICT_EMPTY) {
        m->skip_until = end;
        return VERDICT_EMPTY;
    }
    return verdict_eval(m->verdicts, q0, q0 + rows - 1, kv0, kv0 + n - 1);
}

static void fill_given(struct cpu_mask *m, int q0, int rows, int kv0, int n)
{
    const facc_block_mask *k = &m->call->size.block_mask;
    for (int i = 0; i < rows; i++) {
        const uint8_t *row =
            m->classes + (int64_t)((q0 + i) / k->block_q) * k->cols;
        uint8_t *given = m->given + (size_t)i * CPU_TILE_N;
        if (i > 0 && (q0 + i) % k->block_q != 0) {
            memcpy(given, given - CPU_TILE_N, (size_t)n);
            continue;
        }
        for (int j = 0; j < n; j++)
            given[j] = row[(kv0 + j) / k->block_kv];
    }
}

enum verdict cpu_mask_tile(struct cpu_mask *m, int q0, int rows, int kv0, int n,
                           const uint8_t **given)
{
    const unsigned asked = 1u << VERDICT_PARTIAL;
    *given = NULL;
    if (m->classes == NULL)
        return of_program(m, q0, rows, kv0, n);
    unsigned seen = cpu_classes_in(m->classes, &m->call->size.block_mask, q0,
                                   q0 + rows - 1, kv0, kv0 + n - 1);
    enum verdict by_mask = VERDICT_PARTIAL;
    if (seen & asked)
        by_mask = of_program(m, q0, rows, kv0, n);
    enum verdict v = cpu_classes_join(seen, by_mask);
    if (v != VERDICT_EMPTY && seen != asked) {
        fill_given(m, q0, rows, kv0, n);
        *given = m->given;
    }
    return v;
}
