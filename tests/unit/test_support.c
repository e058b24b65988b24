/* arena, strbuf, diag and hash against hand-written expectations; memory
 * running out at every allocation. */
#include <check.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/support/arena.h"
#include "compiler/support/diag.h"
#include "compiler/support/hash.h"
#include "compiler/support/strbuf.h"
#include "compiler/support/utf8.h"
#include "tests/unit/comma_locale.h"
#include "tests/unit/suite.h"

/* Gives out memory `left` times and then refuses; counts what is alive. */
struct failing {
    long left, live;
};

static void *failing_fn(void *user, void *ptr, size_t old_size, size_t new_size)
{
    struct failing *f = user;
    (void)old_size;
    if (new_size == 0) {
        free(ptr);
        f->live--;
        return NULL;
    }
    if (f->left <= 0)
        return NULL;
    f->left--;
    if (!ptr)
        f->live++;
    return realloc(ptr, new_size);
}

static struct alloc failing_alloc(struct failing *f)
{
    return (struct alloc){failing_fn, f};
}

START_TEST(arena_gives_zeroed_aligned_memory)
{
    struct arena *a = arena_new(&alloc_libc);
    unsigned char *last = NULL;
    for (size_t size = 0; size < 3000; size += 7) {
        unsigned char *p = arena_alloc(a, size);
        ck_assert_ptr_nonnull(p);
        ck_assert_uint_eq((uintptr_t)p % 16, 0);
        ck_assert_ptr_ne(p, last);
        for (size_t k = 0; k < size; k++)
            ck_assert_uint_eq(p[k], 0);
        memset(p, 0xff, size);
        last = p;
    }
    arena_free(a);
    arena_free(NULL);
}
END_TEST

START_TEST(arena_grow_keeps_contents_and_zeroes_the_tail)
{
    struct arena *a = arena_new(&alloc_libc);
    char *p = arena_grow(a, NULL, 0, 5);
    memcpy(p, "abcd", 5);
    char *in_place = arena_grow(a, p, 5, 500);
    ck_assert_ptr_eq(in_place, p);
    ck_assert_str_eq(in_place, "abcd");
    for (int k = 5; k < 500; k++)
        ck_assert_int_eq(in_place[k], 0);
    memset(in_place, 'x', 500);
    char *other = arena_alloc(a, 1);
    *other = 'y';
    char *moved = arena_grow(a, in_place, 500, 100000);
    ck_assert_ptr_ne(moved, in_place);
    for (int k = 0; k < 100000; k++)
        ck_assert_int_eq(moved[k], k < 500 ? 'x' : 0);
    ck_assert_ptr_eq(arena_grow(a, moved, 100000, 10), moved);
    ck_assert_int_eq(*other, 'y');
    arena_free(a);
}
END_TEST

START_TEST(arena_copies_and_formats)
{
    struct arena *a = arena_new(&alloc_libc);
    ck_assert_str_eq(arena_strdup(a, "slopes"), "slopes");
    ck_assert_str_eq(arena_strndup(a, "slopes", 3), "slo");
    ck_assert_str_eq(arena_strndup(a, "", 0), "");
    ck_assert_str_eq(arena_printf(a, "%s[%d]", "doc", 12), "doc[12]");
    size_t used = arena_used(a);
    arena_alloc(a, 100);
    ck_assert_uint_ge(arena_used(a), used + 100);
    ck_assert_uint_lt(arena_used(a), used + 200);
    ck_assert_ptr_null(arena_alloc(a, SIZE_MAX - 3));
    ck_assert_ptr_null(arena_strndup(a, "", SIZE_MAX));
    arena_free(a);
}
END_TEST

START_TEST(arena_survives_failing_allocations)
{
    for (long n = 0; n < 12; n++) {
        struct failing f = {.left = n};
        struct alloc al = failing_alloc(&f);
        struct arena *a = arena_new(&al);
        ck_assert(a != NULL || n == 0);
        size_t size = 100;
        char *p = NULL, *q = NULL;
        for (int k = 0; a && k < 10; k++, size *= 3) {
            q = arena_grow(a, p, p ? size / 3 : 0, size);
            if (!q)
                break;
            p = q;
            p[size - 1] = (char)k;
        }
        if (p)
            ck_assert_int_eq(p[99], 0);
        arena_free(a);
        ck_assert_int_eq(f.live, 0);
    }
}
END_TEST

START_TEST(strbuf_builds_text)
{
    struct arena *a = arena_new(&alloc_libc);
    struct strbuf b;
    strbuf_init(&b, a);
    ck_assert_str_eq(strbuf_text(&b), "");
    strbuf_add(&b, "");
    ck_assert_str_eq(strbuf_text(&b), "");
    for (int k = 0; k < 1000; k++)
        strbuf_addf(&b, "%d,", k % 10);
    strbuf_addn(&b, "endless", 3);
    ck_assert_uint_eq(b.len, 2003);
    ck_assert_uint_eq(strlen(strbuf_text(&b)), 2003);
    ck_assert_str_eq(strbuf_text(&b) + 1998, "9,end");
    ck_assert(!b.failed);
    arena_free(a);
}
END_TEST

static const struct {
    double v;
    const char *text;
} doubles[] = {
    {0.0, "0.0"},
    {-0.0, "-0.0"},
    {1.0, "1.0"},
    {-12.0, "-12.0"},
    {0.1, "0.1"},
    {0.1 + 0.2, "0.30000000000000004"},
    {1e20, "1.0e+20"},
    {-1.5e-300, "-1.5e-300"},
    {1.0 / 3, "0.3333333333333333"},
    {5e-324, "5.0e-324"},
    {INFINITY, "inf"},
    {-INFINITY, "-inf"},
    {NAN, "nan"},
};

static void check_doubles(void)
{
    struct arena *a = arena_new(&alloc_libc);
    for (size_t k = 0; k < sizeof doubles / sizeof *doubles; k++) {
        struct strbuf b;
        strbuf_init(&b, a);
        strbuf_add_double(&b, doubles[k].v);
        ck_assert_str_eq(strbuf_text(&b), doubles[k].text);
    }
    arena_free(a);
}

START_TEST(strbuf_doubles_are_short_and_exact)
{
    check_doubles();
    struct arena *a = arena_new(&alloc_libc);
    uint64_t x = 88172645463325252u;
    for (int k = 0; k < 2000; k++) {
        double v;
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        memcpy(&v, &x, sizeof v);
        if (!isfinite(v))
            continue;
        struct strbuf b;
        strbuf_init(&b, a);
        strbuf_add_double(&b, v);
        ck_assert(strtod(strbuf_text(&b), NULL) == v);
    }
    arena_free(a);
}
END_TEST

START_TEST(strbuf_doubles_ignore_the_locale)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8",
                                        "fr_FR.UTF-8", "ps_AF.UTF-8"};
    bool tried = comma_locale();
    if (tried)
        check_doubles();
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        if (!setlocale(LC_NUMERIC, names[k]))
            continue;
        check_doubles();
        tried = true;
    }
    setlocale(LC_ALL, "C");
    if (!tried)
        printf("SKIPPED strbuf_doubles_ignore_the_locale: no locale with a "
               "decimal comma, nor localedef\n");
}
END_TEST

START_TEST(strbuf_stays_failed)
{
    struct failing f = {.left = 2};
    struct alloc al = failing_alloc(&f);
    struct arena *a = arena_new(&al);
    struct strbuf b;
    strbuf_init(&b, a);
    for (int k = 0; k < 100000 && !b.failed; k++)
        strbuf_add(&b, "0123456789");
    ck_assert(b.failed);
    size_t len = b.len;
    f.left = 1000;
    strbuf_add(&b, "more");
    strbuf_addf(&b, "%d", 1);
    strbuf_add_double(&b, 1.5);
    ck_assert(b.failed);
    ck_assert_uint_eq(b.len, len);
    arena_free(a);
}
END_TEST

START_TEST(diag_keeps_the_first_error)
{
    struct diag d;
    diag_init(&d);
    ck_assert(!diag_failed(&d));
    ck_assert(!diag_set(&d, DIAG_SCRIPT, "trace", "a.lua", 12, "bad %s", "x"));
    ck_assert(!diag_nomem(&d, "emit"));
    ck_assert(diag_failed(&d));
    ck_assert_int_eq(d.status, DIAG_SCRIPT);
    ck_assert_int_eq(d.line, 12);
    ck_assert_str_eq(d.stage, "trace");
    ck_assert_str_eq(d.file, "a.lua");
    ck_assert_str_eq(d.message, "bad x");
    diag_init(&d);
    ck_assert(!diag_nomem(&d, "emit"));
    ck_assert_int_eq(d.status, DIAG_MEMORY);
    ck_assert_str_eq(d.message, "out of memory");
    ck_assert_str_eq(d.file, "");
    ck_assert(!diag_set(NULL, DIAG_IO, "load", NULL, 0, "no diag"));
}
END_TEST

START_TEST(diag_cuts_long_text)
{
    struct diag d;
    char text[4000];
    memset(text, 'm', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    diag_init(&d);
    diag_set(&d, DIAG_IO, text, text, 1, "%s", text);
    ck_assert_uint_eq(strlen(d.message), sizeof d.message - 1);
    ck_assert_uint_eq(strlen(d.file), sizeof d.file - 1);
    ck_assert_uint_eq(strlen(d.stage), sizeof d.stage - 1);
}
END_TEST

static struct hash128 fields(const char *a, const char *b)
{
    struct hash_stream *s = hash_stream_new();
    ck_assert_ptr_nonnull(s);
    hash_stream_field(s, a, strlen(a));
    hash_stream_field(s, b, strlen(b));
    return hash_stream_end(s);
}

static bool same(struct hash128 a, struct hash128 b)
{
    return a.lo == b.lo && a.hi == b.hi;
}

START_TEST(hash_fields_do_not_run_together)
{
    ck_assert(same(fields("ab", "c"), fields("ab", "c")));
    ck_assert(!same(fields("ab", "c"), fields("a", "bc")));
    ck_assert(!same(fields("", "abc"), fields("abc", "")));
}
END_TEST

START_TEST(hash_values_are_fixed)
{
    char hex[33];
    struct hash_stream *nothing = hash_stream_new();
    ck_assert_ptr_nonnull(nothing);
    hash128_hex(hash_stream_end(nothing), hex); /* as XXH3 publishes it */
    ck_assert_str_eq(hex, "99aa06d3014798d86001c324468d497f");
    hash128_hex((struct hash128){.lo = UINT64_C(0x0123456789abcdef),
                                 .hi = UINT64_C(0xfedcba9876543210)},
                hex);
    ck_assert_str_eq(hex, "fedcba98765432100123456789abcdef");
}
END_TEST

START_TEST(hash_mix_depends_on_order)
{
    uint64_t ab = hash_mix(hash_mix(0, 1), 2), ba = hash_mix(hash_mix(0, 2), 1);
    ck_assert_uint_ne(ab, ba);
    ck_assert_uint_ne(hash_mix(0, 0), 0);
}
END_TEST

/* Well-formed as Unicode's table 3-7 has it. */
START_TEST(utf8_valid_and_not)
{
    static const char *const good[] = {"",
                                       "a",
                                       "\x7f",
                                       "\xc2\x80",
                                       "\xdf\xbf",
                                       "\xe0\xa0\x80",
                                       "\xed\x9f\xbf",
                                       "\xee\x80\x80",
                                       "\xef\xbf\xbf",
                                       "\xf0\x90\x80\x80",
                                       "\xf4\x8f\xbf\xbf"};
    static const char *const bad[] = {"\x80",
                                      "\xbf",
                                      "\xc0\x80",
                                      "\xc1\xbf",
                                      "\xc2",
                                      "\xc2x",
                                      "\xe0\x9f\xbf",
                                      "\xe1\x80",
                                      "\xed\xa0\x80",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xff"};
    char text[] = "\xe9t\xc3\xa9 \xe2\x82.\xff";
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        ck_assert_msg(utf8_is_valid(good[i]), "%zu", i);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(!utf8_is_valid(bad[i]), "%zu", i);
    utf8_repair(text);
    ck_assert_str_eq(text, "?t\xc3\xa9 ??.?");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("support");
    TCase *t = tcase_create("support");
    tcase_add_test(t, arena_gives_zeroed_aligned_memory);
    tcase_add_test(t, arena_grow_keeps_contents_and_zeroes_the_tail);
    tcase_add_test(t, arena_copies_and_formats);
    tcase_add_test(t, arena_survives_failing_allocations);
    tcase_add_test(t, strbuf_builds_text);
    tcase_add_test(t, strbuf_doubles_are_short_and_exact);
    tcase_add_test(t, strbuf_doubles_ignore_the_locale);
    tcase_add_test(t, strbuf_stays_failed);
    tcase_add_test(t, diag_keeps_the_first_error);
    tcase_add_test(t, diag_cuts_long_text);
    tcase_add_test(t, hash_fields_do_not_run_together);
    tcase_add_test(t, hash_values_are_fixed);
    tcase_add_test(t, hash_mix_depends_on_order);
    tcase_add_test(t, utf8_valid_and_not);
    suite_add_tcase(s, t);
    return suite_run(s);
}
