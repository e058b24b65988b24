/* facc_workspace_size: what a launch needs besides its tensors, by kernel
 * family. Pure; also called by the launch itself to check the caller's. */
#include "runtime/kernel.h"

enum { ALIGN = 256 };

facc_status facc_workspace_size(const facc_kernel *k, const facc_args *args,
                                size_t *bytes, size_t *align)
{
    if (!k || !args || !bytes || !align)
        return FACC_ERR_ARGUMENT;
    /* sm80: one CTA owns its query tile from start to end. */
    *bytes = 0;
    *align = ALIGN;
    return FACC_OK;
}
