/* facc.h called wrongly: NULL for every pointer, sizes that cannot be, a
 * program of another context. Each gets FACC_ERR_ARGUMENT and a message. */
#include <check.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "call_fixture.h"

/* Says what is wrong, and starts from a clean facc_error. */
#define REFUSED(call, words)                                                   \
    do {                                                                       \
        facc_error e = FACC_ERROR_INIT;                                        \
        facc_error *err = &e;                                                  \
        ck_assert_int_eq(call, FACC_ERR_ARGUMENT);                             \
        ck_assert_msg(strstr(e.message, words) != NULL, "%s", e.message);      \
        err = NULL;                                                            \
        ck_assert_int_eq(call, FACC_ERR_ARGUMENT);                             \
    } while (0)

START_TEST(out_is_null)
{
    struct call c;
    open_call(&c);
    REFUSED(facc_ctx_create(NULL, NULL, err), "out is NULL");
    REFUSED(facc_program_load_file(NULL, c.ctx, "x", err), "out is NULL");
    REFUSED(facc_program_load_string(NULL, c.ctx, "x", "", 0, err),
            "out is NULL");
    REFUSED(
        facc_program_load_expressions(NULL, c.ctx, NULL, NULL, NULL, 0, err),
        "out is NULL");
    REFUSED(facc_kernel_get(NULL, c.ctx, c.program, &c.variant, err),
            "out is NULL");
    REFUSED(facc_program_dump(NULL, c.ctx, c.program, NULL, FACC_DUMP_IR, err),
            "out is NULL");
    REFUSED(facc_program_explain(NULL, c.ctx, c.program, NULL, 0, err),
            "out is NULL");
    REFUSED(facc_device_alloc(NULL, c.ctx, 0, 1, err), "out is NULL");
    REFUSED(facc_timer_create(NULL, c.ctx, 0, err), "out is NULL");
    close_call(&c);
}
END_TEST

static int never(void *user, const facc_cache_entry *e)
{
    (void)user, (void)e;
    return 0;
}

START_TEST(ctx_is_null)
{
    facc_device_info info = FACC_DEVICE_INFO_INIT;
    facc_timer *timer;
    void *p;
    REFUSED(facc_cache_list(NULL, never, NULL, err), "ctx is NULL");
    REFUSED(facc_cache_gc(NULL, 0, NULL, NULL, err), "ctx is NULL");
    REFUSED(facc_cache_clear(NULL, NULL, err), "ctx is NULL");
    REFUSED(facc_device_info_get(NULL, 0, &info, err), "ctx is NULL");
    REFUSED(facc_device_alloc(&p, NULL, 0, 1, err), "ctx is NULL");
    REFUSED(facc_device_upload(NULL, 0, &p, &p, 1, err), "ctx is NULL");
    REFUSED(facc_device_download(NULL, 0, &p, &p, 1, err), "ctx is NULL");
    REFUSED(facc_device_synchronize(NULL, 0, err), "ctx is NULL");
    REFUSED(facc_timer_create(&timer, NULL, 0, err), "ctx is NULL");
    ck_assert_int_eq(facc_device_free(NULL, 0, &p), FACC_ERR_ARGUMENT);
}
END_TEST

START_TEST(others_are_null)
{
    struct call c;
    double ms;
    open_call(&c);
    REFUSED(facc_cache_list(c.ctx, NULL, NULL, err), "entry is NULL");
    REFUSED(facc_timer_begin(NULL, err), "timer is NULL");
    REFUSED(facc_timer_end(NULL, &ms, err), "timer is NULL");
    ck_assert_ptr_null(facc_timer_stream(NULL));
    close_call(&c);
}
END_TEST

/* Half a pointer is no pointer. */
START_TEST(struct_sizes)
{
    struct call c;
    facc_ctx *ctx;
    facc_kernel_info info = FACC_KERNEL_INFO_INIT;
    facc_options o = FACC_OPTIONS_INIT;
    open_call(&c);
    static const size_t wrong[] = {0, 3, 12, sizeof o + 1, SIZE_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        o.struct_size = wrong[i];
        o.cache_dirs = "/nowhere";
        REFUSED(facc_ctx_create(&ctx, &o, err), "struct_size");
        ck_assert_ptr_null(ctx);
        c.variant.struct_size = wrong[i];
        REFUSED(facc_kernel_check(c.ctx, c.program, &c.variant, &c.args, err),
                "struct_size");
        c.variant.struct_size = sizeof c.variant;
        c.args.struct_size = wrong[i];
        REFUSED(facc_cpu_attention(c.ctx, c.program, &c.args, NULL, err),
                "struct_size");
        c.args.struct_size = sizeof c.args;
    }
    info.struct_size = 12;
    ck_assert_int_eq(facc_kernel_get_info(NULL, &info), FACC_ERR_ARGUMENT);
    close_call(&c);
}
END_TEST

/* What a later facc.h gives a meaning must not be ignored by this library. */
START_TEST(reserved_fields)
{
    struct call c;
    facc_ctx *ctx;
    facc_error err = FACC_ERROR_INIT;
    facc_options o = FACC_OPTIONS_INIT;
    open_call(&c);
    o.reserved0 = 1;
    ck_assert_int_eq(facc_ctx_create(&ctx, &o, &err), FACC_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.message, "facc_options.reserved0"));
    c.args.reserved0 = -1;
    ck_assert_int_eq(check(&c, &err), FACC_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.message, "facc_args.reserved0"));
    ck_assert_int_eq(facc_cpu_attention(c.ctx, c.program, &c.args, NULL, &err),
                     FACC_ERR_UNSUPPORTED);
    c.args.reserved0 = 0;
    c.variant.reserved0 = 1;
    ck_assert_int_eq(check(&c, &err), FACC_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.message, "facc_variant.reserved0"));
    c.variant.reserved0 = 0;
    c.variant.packed = 1;
    ck_assert_int_eq(check(&c, &err), FACC_ERR_ARGUMENT);
    c.variant.struct_size = offsetof(facc_variant, packed); /* is not read */
    ck_assert_msg(check(&c, &err) == FACC_OK, "%s", err.message);
    close_call(&c);
}
END_TEST

START_TEST(sizes_beyond_memory)
{
    struct call c;
    facc_program *p;
    double to = 0;
    float from = 0;
    open_call(&c);
    REFUSED(facc_program_load_string(&p, c.ctx, "x", "return", SIZE_MAX, err),
            "16 MiB");
    REFUSED(facc_program_load_string(&p, c.ctx, "x", "return",
                                     ((size_t)16 << 20) + 1, err),
            "16 MiB");
    ck_assert_int_eq(facc_convert(FACC_F64, &to, FACC_F32, &from, SIZE_MAX),
                     FACC_ERR_ARGUMENT);
    ck_assert_int_eq(facc_convert(FACC_F64, &to, FACC_F32, &from, SIZE_MAX / 8),
                     FACC_ERR_ARGUMENT);
    close_call(&c);
}
END_TEST

/* Programs are numbered within their context: taken for one of another, a
 * program would get that one's kernel. */
START_TEST(program_of_another_context)
{
    struct call a, b;
    facc_kernel *k;
    open_call(&a);
    open_call(&b);
    REFUSED(facc_kernel_get(&k, a.ctx, b.program, &b.variant, err),
            "another context");
    ck_assert_ptr_null(k);
    close_call(&b);
    close_call(&a);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {out_is_null,
                                  ctx_is_null,
                                  others_are_null,
                                  struct_sizes,
                                  reserved_fields,
                                  sizes_beyond_memory,
                                  program_of_another_context};
    return run_tests("misuse", NULL, 0, tests, sizeof tests / sizeof tests[0]);
}
