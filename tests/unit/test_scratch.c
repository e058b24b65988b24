/* The stack of temporaries: contents, nesting, reuse of its memory, failure
 * at every allocation. */
#include "compiler/ir/scratch.h"
#include "tests/unit/ir_fixture.h"

START_TEST(blocks_do_not_overlap)
{
    OPEN;
    struct scratch_mark mark = scratch_mark(f->g);
    unsigned char *p[64];
    for (int k = 0; k < 64; k++) {
        p[k] = scratch_alloc(f->g, 1000);
        ck_assert_ptr_nonnull(p[k]);
        ck_assert_uint_eq((uintptr_t)p[k] % 16, 0);
        memset(p[k], k, 1000);
    }
    for (int k = 0; k < 64; k++)
        ck_assert(p[k][0] == k && p[k][999] == k);
    scratch_release(f->g, mark);
    CLOSE;
}
END_TEST

START_TEST(released_memory_comes_again)
{
    OPEN;
    scratch_release(f->g, scratch_mark(f->g)); /* an empty stack */
    char *keep = scratch_alloc(f->g, 100);
    strcpy(keep, "kept");
    struct scratch_mark mark = scratch_mark(f->g);
    void *first = scratch_alloc(f->g, 40000);
    scratch_release(f->g, mark);
    size_t used = arena_used(f->arena);
    for (int k = 0; k < 1000; k++) {
        ck_assert_ptr_eq(scratch_alloc(f->g, 40000), first);
        struct scratch_mark inner = scratch_mark(f->g);
        ck_assert_ptr_nonnull(scratch_alloc(f->g, 100));
        scratch_release(f->g, inner);
        scratch_release(f->g, mark);
    }
    ck_assert_uint_eq(arena_used(f->arena), used);
    ck_assert_str_eq(keep, "kept");
    CLOSE;
}
END_TEST

static bool allocate_something(struct fixture *f)
{
    for (size_t k = 1; k < 30; k++)
        if (!scratch_alloc(f->g, 1000 * k))
            return false;
    return true;
}

START_TEST(every_allocation_may_fail)
{
    fail_every_allocation(allocate_something);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {blocks_do_not_overlap,
                                  released_memory_comes_again,
                                  every_allocation_may_fail};
    return run_tests("scratch", tests, sizeof tests / sizeof *tests);
}
