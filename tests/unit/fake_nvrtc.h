/* Builds fake_nvrtc.c, which needs the C compiler. */
#ifndef FACC_TEST_FAKE_NVRTC_H
#define FACC_TEST_FAKE_NVRTC_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* dir/libnvrtc.so.13. False: there is no C compiler. */
static inline bool make_fake_nvrtc(const char *dir, char *file, size_t size)
{
    char command[12000];
    snprintf(file, size, "%s/libnvrtc.so.13", dir);
    snprintf(command, sizeof command,
             "cc -w -D_GNU_SOURCE -shared -fPIC '%s' -o '%s'",
             FACC_SOURCE_DIR "/tests/unit/fake_nvrtc.c", file);
    return system(command) == 0;
}

#endif
