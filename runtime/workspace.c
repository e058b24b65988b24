/* facc_workspace_size: what a launch needs besides its tensors: room for its
 * schedule, whichever code the tensors' pointers and strides will take, and for
 * V transposed. Pure; the launch lays out the same parts. */
#include "runtime/error.h"
#include "runtime/kernel.h"
#include "runtime/transpose.h"

facc_status facc_workspace_size(const facc_kernel *k, const facc_args *args,
                                size_t *bytes, size_t *align)
{
    struct diag d;
    facc_args a;
    struct args_rules rules;
    struct args_sizes sizes;
    struct schedule schedule;
    struct transpose transpose = {.bytes = 0};
    diag_init(&d);
    if (!k || !args || !bytes || !align)
        return FACC_ERR_ARGUMENT;
    launch_rules(&k->plans.plan[0].config, "workspace", &rules);
    rules.sizes_only = true;
    if (!versioned_read(&a, sizeof a, args, "facc_args", &d) ||
        !args_check(&a, &rules, &k->signature, &sizes, &d))
        return error_report(NULL, &d, NULL, NULL);
    size_t most = 0;
    for (int i = 0; i < k->plans.n; i++) {
        const struct plan *p = &k->plans.plan[i];
        if (!schedule_make(&p->config, &p->facts, &a, &sizes, rules.stage,
                           &schedule, &d))
            return error_report(NULL, &d, NULL, NULL);
        most = schedule.bytes > most ? schedule.bytes : most;
    }
    if (k->plans.transposed &&
        !transpose_make(&a, &sizes, most, rules.stage, &transpose, &d))
        return error_report(NULL, &d, NULL, NULL);
    *bytes = most + transpose.bytes;
    *align = SCHEDULE_ALIGN;
    return FACC_OK;
}
