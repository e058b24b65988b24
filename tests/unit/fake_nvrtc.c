/* An NVRTC of our own, for tests of what is around it: the same entries, no
 * compiler. Each unit gives other bytes behind the letters ELF.
 * $FAKE_NVRTC_LOG: a byte is added to that file at the begin of each compile;
 * $FAKE_NVRTC_GATE: while that file is there, compiles wait, but for the first
 * $FAKE_NVRTC_FREE of the log; $FAKE_NVRTC_MS: how long one takes from then on.
 * Built by the tests (fake_nvrtc.h, cli.sh). */
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, OUT_OF_MEMORY = 1, COMPILATION = 6, CUBIN_SIZE = 4096 };

struct program {
    unsigned long hash;
};

static unsigned long mix(unsigned long h, const char *s)
{
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 1099511628211ul;
    return h * 31 + 7;
}

/* Where the user's lines stand decides no machine code. */
static unsigned long mix_code(unsigned long h, const char *s)
{
    static const char line[] = "#line ";
    while (*s) {
        const char *end = strchrnul(s, '\n');
        if (strncmp(s, line, sizeof line - 1) != 0)
            for (; s < end; s++)
                h = (h ^ (unsigned char)*s) * 1099511628211ul;
        s = end + (*end != '\0');
    }
    return h * 31 + 7;
}

int nvrtcVersion(int *major, int *minor)
{
    *major = 13;
    *minor = 0;
    return OK;
}

const char *nvrtcGetErrorString(int r)
{
    return r ? "bad" : "ok";
}

int nvrtcGetNumSupportedArchs(int *n)
{
    *n = 3;
    return OK;
}

int nvrtcGetSupportedArchs(int *arch)
{
    arch[0] = 80;
    arch[1] = 89;
    arch[2] = 90;
    return OK;
}

/* Generated headers alone: templates are the same for all. */
int nvrtcCreateProgram(struct program **out, const char *text, const char *name,
                       int n, const char *const *headers,
                       const char *const *names)
{
    (void)name;
    *out = malloc(sizeof **out);
    if (!*out)
        return OUT_OF_MEMORY;
    (*out)->hash = mix(14695981039346656037ul, text);
    for (int i = 0; i < n; i++)
        if (strncmp(names[i], "facc_", 5) == 0)
            (*out)->hash = mix_code((*out)->hash, headers[i]);
    return OK;
}

int nvrtcDestroyProgram(struct program **p)
{
    free(*p);
    return OK;
}

static int number_of(const char *name)
{
    const char *value = getenv(name);
    return value ? atoi(value) : 0;
}

int nvrtcCompileProgram(struct program *p, int n, const char *const *options)
{
    const char *gate = getenv("FAKE_NVRTC_GATE"),
               *log = getenv("FAKE_NVRTC_LOG");
    const int fd = log ? open(log, O_WRONLY | O_APPEND | O_CREAT, 0644) : -1;
    long nth = 1; /* of the log */
    if (fd >= 0) {
        if (write(fd, "x", 1) != 1)
            return COMPILATION;
        nth = lseek(fd, 0, SEEK_CUR);
        close(fd);
    }
    for (int i = 0; i < n; i++)
        p->hash = mix(p->hash, options[i]);
    while (gate && nth > number_of("FAKE_NVRTC_FREE") &&
           access(gate, F_OK) == 0)
        usleep(1000);
    usleep(1000 * (unsigned)number_of("FAKE_NVRTC_MS"));
    return OK;
}

int nvrtcGetPTXSize(const struct program *p, size_t *size)
{
    (void)p;
    *size = 0;
    return OK;
}

int nvrtcGetPTX(void)
{
    return OK;
}

int nvrtcGetCUBINSize(const struct program *p, size_t *size)
{
    (void)p;
    *size = CUBIN_SIZE;
    return OK;
}

int nvrtcGetCUBIN(const struct program *p, char *cubin)
{
    memcpy(cubin, "\177ELF", 4);
    for (int i = 4; i < CUBIN_SIZE; i++)
        cubin[i] = (char)(p->hash >> i % 8 * 8);
    return OK;
}

int nvrtcGetProgramLogSize(const struct program *p, size_t *size)
{
    (void)p;
    *size = 0;
    return OK;
}

int nvrtcGetProgramLog(void)
{
    return OK;
}
