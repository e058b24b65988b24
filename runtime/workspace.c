/* facc_workspace_size: what a launch needs besides its tensors: room for its
 * schedule. Pure; the launch lays out the same parts. */
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
    launch_rules(&k->config, "workspace", &rules);
    rules.sizes_only = true;
    if (!versioned_read(&a, sizeof a, args, "facc_args", &d) ||
        !args_check(&a, &rules, &k->signature, &sizes, &d) ||
        !schedule_make(&k->config, &k->facts, &a, &sizes, rules.stage,
                       &schedule, &d))
        return error_report(NULL, &d, NULL, NULL);
    *bytes = schedule.bytes;
    *align = SCHEDULE_ALIGN;
    return FACC_OK;
}
