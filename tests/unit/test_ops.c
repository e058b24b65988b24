/* The op table: every row well formed, and its derivative column, read as
 * formulas on doubles, equal to central finite differences of its value. */
#include <ctype.h>
#include <math.h>

#include "compiler/ir/eval.h"
#include "tests/unit/ir_fixture.h"

struct row {
    const char *name, *dsl, *in, *cuda, *eval, *iv, *d[3];
    int n;
    char out;
};

static const struct row rows[] = {
#define OP(name, dsl, n, out, in, cuda, eval, iv, d0, d1, d2)                  \
    {#name, dsl, in, cuda, #eval, #iv, {#d0, #d1, #d2}, n, #out[0]},
#include "compiler/ir/ops.def"
};
enum { N_ROWS = sizeof rows / sizeof *rows };

static int uses(const char *text, char mark, int k)
{
    int n = 0;
    for (const char *s = text; *s; s++)
        n += s[0] == mark && s[1] == '0' + k;
    return n;
}

static bool balanced(const char *text)
{
    int depth = 0;
    for (; *text && depth >= 0; text++)
        depth += *text == '(' ? 1 : *text == ')' ? -1 : 0;
    return depth == 0;
}

START_TEST(rows_are_well_formed)
{
    for (int k = 0; k < N_ROWS; k++) {
        const struct row *r = &rows[k];
        bool own = strcmp(r->eval, "NONE") == 0;
        ck_assert_msg(strchr("bif", r->out) != NULL, "%s", r->name);
        ck_assert_msg(strspn(r->in, r->n < 0 ? "*" : "bif") == strlen(r->in),
                      "%s", r->name);
        ck_assert_msg(r->n < 0 || (int)strlen(r->in) == r->n, "%s", r->name);
        ck_assert_msg(balanced(r->cuda) && balanced(r->eval), "%s", r->name);
        ck_assert_msg(r->n <= 3, "%s", r->name);
        /* the emitter and the evaluator have the same rules of their own */
        ck_assert_msg(own == (r->cuda[0] == '\0'), "%s", r->name);
        for (int x = 0; x < 3 && !own; x++) {
            bool operand = x < r->n;
            ck_assert_msg(operand == (uses(r->cuda, '$', x) > 0), "%s",
                          r->name);
            ck_assert_msg(operand == (uses(r->eval, 'x', x) > 0), "%s",
                          r->name);
        }
        if (own)
            ck_assert_msg(strcmp(r->iv, "none") == 0, "%s", r->name);
        else if (r->out != 'b')
            ck_assert_msg(strcmp(r->iv, "none") != 0, "%s", r->name);
    }
}
END_TEST

START_TEST(names_are_distinct)
{
    for (int k = 0; k < N_ROWS; k++) {
        for (int j = 0; j < k; j++) {
            ck_assert_str_ne(rows[k].name, rows[j].name);
            if (rows[k].dsl[0])
                ck_assert_str_ne(rows[k].dsl, rows[j].dsl);
        }
        for (const char *s = rows[k].dsl; *s; s++)
            ck_assert(islower((unsigned char)*s) ||
                      isdigit((unsigned char)*s) || *s == '_');
        if (rows[k].dsl[0])
            ck_assert_int_ge(rows[k].n, 1);
    }
}
END_TEST

/* Gradients flow to float operands of float ops and nowhere else. */
START_TEST(derivatives_name_what_exists)
{
    static const char *const words[] = {
        "ADD", "SUB", "MUL", "DIV", "NEG", "SQ", "RCP", "EXP",
        "LN",  "SIN", "COS", "POW", "SEL", "LT", "LE",  "FLOORDIV",
        "K",   "X0",  "X1",  "X2",  "Y",   "G",  "ZERO"};
    for (int k = 0; k < N_ROWS; k++) {
        for (int x = 0; x < 3; x++) {
            const char *s = rows[k].d[x];
            bool to_float =
                rows[k].out == 'f' && x < rows[k].n && rows[k].in[x] == 'f';
            ck_assert_msg(balanced(s), "%s", rows[k].name);
            if (!to_float)
                ck_assert_msg(strcmp(s, "ZERO") == 0, "%s", rows[k].name);
            while (*s) {
                size_t len = 0;
                while (isupper((unsigned char)s[len]) ||
                       (len && isdigit((unsigned char)s[len])))
                    len++;
                bool known = len == 0;
                for (size_t w = 0; w < sizeof words / sizeof *words; w++)
                    known |= strlen(words[w]) == len &&
                             strncmp(words[w], s, len) == 0;
                ck_assert_msg(known, "%s: %s", rows[k].name, s);
                s += len ? len : 1;
            }
        }
    }
}
END_TEST

/* --- the derivative language on doubles ----------------------------------- */

#define ADD(a, b) ((a) + (b))
#define SUB(a, b) ((a) - (b))
#define MUL(a, b) ((a) * (b))
#define DIV(a, b) ((a) / (b))
#define NEG(a) (-(a))
#define SQ(a) ((a) * (a))
#define EXP(a) exp(a)
#define LN(a) log(a)
#define SIN(a) sin(a)
#define COS(a) cos(a)
#define POW(a, b) pow(a, b)
#define FLOORDIV(a, b) floor((a) / (b))
#define SEL(c, a, b) ((c) != 0 ? (a) : (b))
#define LT(a, b) ((a) < (b) ? 1.0 : 0.0)
#define K(c) (c)
#define ZERO 0.0

#define OP(name, dsl, n, out, in, cuda, eval, iv, d0, d1, d2)                  \
    static double grad_##name(int k, double X0, double X1, double X2,          \
                              double Y, double G)                              \
    {                                                                          \
        (void)X0, (void)X1, (void)X2, (void)Y, (void)G;                        \
        return k == 0 ? (d0) : k == 1 ? (d1) : (d2);                           \
    }
#include "compiler/ir/ops.def"

static double (*const grads[])(int, double, double, double, double, double) = {
#define OP(name, dsl, n, out, in, cuda, eval, iv, d0, d1, d2) grad_##name,
#include "compiler/ir/ops.def"
};

static double value(int row, const double x[3])
{
    union eval_value v[3] = {{0}};
    for (int k = 0; k < rows[row].n; k++) {
        if (rows[row].in[k] == 'f')
            v[k].f = x[k];
        else
            v[k].i = x[k] != 0;
    }
    return eval_op_f64((enum ir_op)(row + 1), v).f;
}

/* Where the function is smooth within a small step of x. */
static bool smooth(int row, const double x[3])
{
    switch (row + 1) {
    case IR_FMIN:
    case IR_FMAX:
        return fabs(x[0] - x[1]) > 1e-2;
    case IR_FABS:
        return fabs(x[0]) > 1e-2;
    case IR_FDIV:
        return fabs(x[1]) > 0.1;
    case IR_FFLOORDIV:
    case IR_FMOD: {
        double part = x[0] / x[1] - floor(x[0] / x[1]);
        return fabs(x[1]) > 0.1 && part > 1e-2 && part < 0.99;
    }
    case IR_FPOW:
    case IR_FLOG:
    case IR_FLOG2:
    case IR_FLOG10:
    case IR_FSQRT:
    case IR_FRSQRT:
        return x[0] > 0.1;
    case IR_FTAN:
        return fabs(cos(x[0])) > 0.2;
    default:
        return true;
    }
}

START_TEST(derivatives_match_finite_differences)
{
    static const double points[] = {-2.7, -1.3, -0.6, -0.2, 0.15,
                                    0.4,  0.9,  1.6,  2.3,  3.1};
    int rows_seen = 0;
    for (int row = 0; row < N_ROWS; row++) {
        if (rows[row].out != 'f' || rows[row].n < 1 || rows[row].in[0] == 'i')
            continue;
        int seen = 0;
        for (int p = 0; p < 1000; p++) {
            double x[3] = {points[p % 10], points[p / 10 % 10],
                           points[p / 100]};
            if (rows[row].in[0] == 'b')
                x[0] = p % 2;
            if (!smooth(row, x))
                continue;
            double y = value(row, x), g = 1.75;
            for (int k = 0; k < rows[row].n; k++) {
                if (rows[row].in[k] != 'f')
                    continue;
                double up[3] = {x[0], x[1], x[2]}, down[3] = {x[0], x[1], x[2]};
                up[k] += 1e-5;
                down[k] -= 1e-5;
                double want = g * (value(row, up) - value(row, down)) / 2e-5;
                double got = grads[row](k, x[0], x[1], x[2], y, g);
                ck_assert_msg(fabs(got - want) <= 1e-6 * (1 + fabs(want)),
                              "%s by operand %d at (%g, %g, %g): %g, not %g",
                              rows[row].name, k, x[0], x[1], x[2], got, want);
                seen++;
            }
        }
        ck_assert_msg(seen > 100, "%s", rows[row].name);
        rows_seen++;
    }
    ck_assert_int_ge(rows_seen, 20);
}
END_TEST

/* At a tie the gradient goes to the first operand, as the value does. */
START_TEST(derivatives_at_kinks)
{
    int min = IR_FMIN - 1, max = IR_FMAX - 1, abs0 = IR_FABS - 1;
    ck_assert(grads[min](0, 1, 1, 0, 1, 2) == 2 &&
              grads[min](1, 1, 1, 0, 1, 2) == 0);
    ck_assert(grads[max](0, 1, 1, 0, 1, 2) == 2 &&
              grads[max](1, 1, 1, 0, 1, 2) == 0);
    ck_assert(grads[min](0, 3, 1, 0, 1, 2) == 0 &&
              grads[min](1, 3, 1, 0, 1, 2) == 2);
    ck_assert(fabs(grads[abs0](0, 0, 0, 0, 0, 2)) == 2);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        rows_are_well_formed,         names_are_distinct,
        derivatives_name_what_exists, derivatives_match_finite_differences,
        derivatives_at_kinks,
    };
    return run_tests("ops", tests, sizeof tests / sizeof *tests);
}
