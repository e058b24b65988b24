/* An NVRTC of our own for tests of what is around it: each unit gives other
 * bytes behind the letters ELF, after a while, and a log counts compiles. Made
 * with the C compiler, which those tests need. */
#ifndef FACC_TEST_FAKE_NVRTC_H
#define FACC_TEST_FAKE_NVRTC_H

#include <stdbool.h>
#include <stdio.h>

/* $FAKE_NVRTC_MS: how long a compile takes; $FAKE_NVRTC_LOG: a byte is added to
 * that file at the begin of each. */
static const char fake_nvrtc_text[] =
    "#include <fcntl.h>\n"
    "#include <stdlib.h>\n"
    "#include <string.h>\n"
    "#include <unistd.h>\n"
    "struct program { unsigned long hash; };\n"
    "static unsigned long mix(unsigned long h, const char *s)\n"
    "{\n"
    "    for (; *s; s++) h = (h ^ (unsigned char)*s) * 1099511628211ul;\n"
    "    return h * 31 + 7;\n"
    "}\n"
    "int nvrtcVersion(int *a, int *b) { *a = 13; *b = 0; return 0; }\n"
    "const char *nvrtcGetErrorString(int r) { return r ? \"bad\" : \"ok\"; }\n"
    "int nvrtcGetNumSupportedArchs(int *n) { *n = 3; return 0; }\n"
    "int nvrtcGetSupportedArchs(int *a)\n"
    "{ a[0] = 80; a[1] = 89; a[2] = 90; return 0; }\n"
    "int nvrtcCreateProgram(struct program **p, const char *text,\n"
    "    const char *name, int n, const char *const *h, const char *const *i)\n"
    "{\n"
    "    if (!(*p = malloc(sizeof **p))) return 1;\n"
    "    (*p)->hash = mix(14695981039346656037ul, text);\n"
    "    for (int k = 0; k < n; k++)\n"
    "        if (strncmp(i[k], \"facc_\", 5) == 0)\n"
    "            (*p)->hash = mix((*p)->hash, h[k]);\n"
    "    return 0;\n"
    "}\n"
    "int nvrtcDestroyProgram(struct program **p) { free(*p); return 0; }\n"
    "int nvrtcCompileProgram(struct program *p, int n, const char *const *o)\n"
    "{\n"
    "    const char *ms = getenv(\"FAKE_NVRTC_MS\");\n"
    "    const char *log = getenv(\"FAKE_NVRTC_LOG\");\n"
    "    int fd = log ? open(log, O_WRONLY | O_APPEND | O_CREAT, 0644) : -1;\n"
    "    if (fd >= 0 && write(fd, \"x\", 1) != 1) return 6;\n"
    "    if (fd >= 0) close(fd);\n"
    "    for (int k = 0; k < n; k++) p->hash = mix(p->hash, o[k]);\n"
    "    if (ms) usleep(1000 * atoi(ms));\n"
    "    return 0;\n"
    "}\n"
    "int nvrtcGetPTXSize(void *p, size_t *n) { *n = 0; return 0; }\n"
    "int nvrtcGetPTX(void) { return 0; }\n"
    "int nvrtcGetCUBINSize(void *p, size_t *n) { *n = 4096; return 0; }\n"
    "int nvrtcGetCUBIN(struct program *p, char *s)\n"
    "{\n"
    "    memcpy(s, \"\\177ELF\", 4);\n"
    "    for (int k = 4; k < 4096; k++) s[k] = (char)(p->hash >> k % 8 * 8);\n"
    "    return 0;\n"
    "}\n"
    "int nvrtcGetProgramLogSize(void *p, size_t *n) { *n = 0; return 0; }\n"
    "int nvrtcGetProgramLog(void) { return 0; }\n";

/* dir/libnvrtc.so.13. False: there is no C compiler. */
static inline bool make_fake_nvrtc(const char *dir, char *file, size_t size)
{
    char command[8192];
    snprintf(file, size, "%s/libnvrtc.so.13", dir);
    snprintf(command, sizeof command, "cc -w -O1 -shared -fPIC -x c - -o '%s'",
             file);
    FILE *cc = popen(command, "w");
    if (!cc)
        return false;
    fputs(fake_nvrtc_text, cc);
    return pclose(cc) == 0;
}

#endif
