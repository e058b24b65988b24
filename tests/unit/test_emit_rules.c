/* The rules of templates/common/interval.cuh, on the CPU: a file is written
 * from ops.def in which every op that has a rule is asked for random ranges,
 * and its cuda column for values in them, which the rule's range must hold. */
#include "tests/unit/emit_build.h"
#include "tests/unit/suite.h"

/* The type of an operand's range. */
static const char *range_type(char c, const char *ints)
{
    return c == 'b' ? "facc_bools" : c == 'f' ? "facc_floats" : ints;
}

/* The cuda column on x0, x1, x2. */
static void put_value(FILE *f, const char *cuda)
{
    for (; *cuda; cuda++)
        fputc(*cuda == '$' ? 'x' : *cuda, f);
}

static void put_op(FILE *f, const char *name, int n, const char *in,
                   const char *cuda, const char *rule, const char *ints)
{
    /* shifts of ints are done in 64 bits unless the result is known to fit */
    const bool shift = strncmp(rule, "ish", 3) == 0;
    if (strcmp(rule, "none") == 0 || (shift && !strstr(ints, "long")))
        return;
    if (strcmp(name, "DOT") == 0) /* no function of values */
        return;
    fprintf(f, "{\n    long bad = 0;\n    for (int n = 0; n < 20000; n++) {\n");
    for (int k = 0; k < n; k++)
        fprintf(f, "        const auto r%d = random_range<%s>::make();\n", k,
                range_type(in[k], ints));
    fprintf(f, "        const auto r = facc_iv_%s(", rule);
    for (int k = 0; k < n; k++)
        fprintf(f, "%sr%d", k ? ", " : "", k);
    fprintf(f, ");\n        for (int j = 0; j < 6; j++) {\n");
    for (int k = 0; k < n; k++)
        fprintf(f, "            const auto x%d = pick(r%d);\n", k, k);
    fprintf(f, "            const auto v = ");
    put_value(f, cuda);
    fprintf(f,
            ";\n            bad += !holds(r, v);\n        }\n    }\n"
            "    if (bad) printf(\"%s of %s: %%ld of 120000 outside\\n\", "
            "bad);\n    all += bad;\n    rules++;\n}\n",
            name, ints);
}

static void put_ops(FILE *f, const char *ints)
{
#define OP(name, dsl, n, out, in, cuda, eval, iv, d0, d1, d2)                  \
    put_op(f, #name, n, in, cuda, #iv, ints);
#include "compiler/ir/ops.def"
}

START_TEST(rules_hold_what_their_ops_give)
{
    char dir[] = "/tmp/facc_test_rules_XXXXXX", path[64], command[1024];
    if (emit_no_compiler())
        return;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/all.cc", dir);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fprintf(f, "#include <cstdio>\n#include \"tests/unit/emit_host.h\"\n"
               "constexpr int kNumTensors = 0, kNumParams = 0;\n"
               "constexpr int kExtraDim = 0;\n"
               "constexpr int kPlaneBytes = 0;\n");
    emit_put_header(f, embedded_find("common/args.cuh")->text);
    emit_put_header(f, embedded_find("common/variant_math.cuh")->text);
    emit_put_header(f, embedded_find("common/interval.cuh")->text);
    fprintf(f, "#include \"tests/unit/emit_rules.h\"\nint main()\n{\n"
               "long all = 0, rules = 0;\n");
    put_ops(f, "facc_ints<long long>");
    put_ops(f, "facc_ints<int>");
    fprintf(f, "printf(\"%%ld rules\\n\", rules);\nreturn all != 0;\n}\n");
    ck_assert_int_eq(fclose(f), 0);
    snprintf(command, sizeof command,
             "c++ -std=c++17 -O1 -w -fwrapv -ffp-contract=off -I%s -o %s/all "
             "%s/all.cc -lm",
             FACC_SOURCE_DIR, dir, dir);
    ck_assert_msg(system(command) == 0, "%s", command);
    snprintf(command, sizeof command, "%s/all", dir);
    const int failed = system(command);
    snprintf(command, sizeof command, "rm -r %s", dir);
    ck_assert_int_eq(system(command), 0);
    ck_assert_int_eq(failed, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("emit_rules");
    TCase *t = tcase_create("rules");
    tcase_set_timeout(t, 600);
    tcase_add_test(t, rules_hold_what_their_ops_give);
    suite_add_tcase(s, t);
    return suite_run(s);
}
