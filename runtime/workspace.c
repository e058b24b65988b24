/* facc_workspace_size: what a launch needs besides its tensors: room for its
 * schedule, whichever code the tensors' pointers and strides will take. Pure;
 * the launch lays out the same parts. */
#include "runtime/error.h"
#include "runtime/kernel.h"

facc_status facc_workspace_size(const facc_kernel *k, const facc_args *args,
                                size_t *bytes, size_t *align)
{
    struct diag d;
    facc_args a;
    struct args_rules rules;
    struct args_sizes sizes;
    struct schedule schedule;
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
    *bytes = most;
    *align = SCHEDULE_ALIGN;
    return FACC_OK;
}
