/* Finds NVRTC, compiles a unit with its headers in memory, and reads what
 * ptxas says about registers and spills. Called by kernel.c on a cache miss
 * and by program.c for PTX. */
#include "runtime/nvrtc.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "runtime/facc.h"

typedef struct nvrtc_program_handle *program_handle;

#define NVRTC_ENTRIES(E)                                                       \
    E(Version, (int *, int *))                                                 \
    E(GetNumSupportedArchs, (int *))                                           \
    E(GetSupportedArchs, (int *))                                              \
    E(CreateProgram, (program_handle *, const char *, const char *, int,       \
                      const char *const *, const char *const *))               \
    E(DestroyProgram, (program_handle *))                                      \
    E(CompileProgram, (program_handle, int, const char *const *))              \
    E(GetPTXSize, (program_handle, size_t *))                                  \
    E(GetPTX, (program_handle, char *))                                        \
    E(GetCUBINSize, (program_handle, size_t *))                                \
    E(GetCUBIN, (program_handle, char *))                                      \
    E(GetProgramLogSize, (program_handle, size_t *))                           \
    E(GetProgramLog, (program_handle, char *))

enum { OUT_OF_MEMORY = 1, COMPILATION = 6 }; /* nvrtcResult */
enum { OLDEST = 12000 };                     /* 12.0 */

struct nvrtc {
    void *lib, *builtins;
    char path[256];
    int major, minor;
    const char *(*GetErrorString)(int);
#define FIELD(name, params) int(*name) params;
    NVRTC_ENTRIES(FIELD)
#undef FIELD
};

static const char stage_name[] = "nvrtc";

/* ---- finding -------------------------------------------------------- */

static const char *const sonames[] = {"libnvrtc.so.13", "libnvrtc.so.12",
                                      "libnvrtc.so"};
enum { N_SONAMES = sizeof sonames / sizeof sonames[0] };

/* From a folder outside the loader's path NVRTC does not find its builtins:
 * they must be open, and global, before it compiles. */
static void *open_builtins(const char *folder)
{
    char pattern[4096];
    glob_t g;
    void *lib = NULL;
    int len = snprintf(pattern, sizeof pattern,
                       "%s/libnvrtc-builtins.so.[0-9]*", folder);
    if (len >= (int)sizeof pattern || glob(pattern, 0, NULL, &g) != 0)
        return NULL;
    for (size_t i = g.gl_pathc; i > 0 && !lib; i--)
        lib = dlopen(g.gl_pathv[i - 1], RTLD_NOW | RTLD_GLOBAL);
    globfree(&g);
    return lib;
}

static bool open_file(struct nvrtc *n, const char *file)
{
    char folder[4096];
    const char *slash = strrchr(file, '/');
    if (slash) {
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - file), file);
        n->builtins = open_builtins(folder);
    }
    n->lib = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!n->lib && n->builtins) {
        dlclose(n->builtins);
        n->builtins = NULL;
    }
    if (n->lib) /* until resolve() finds where the loader took it from */
        snprintf(n->path, sizeof n->path, "%s", file);
    return n->lib != NULL;
}

static bool open_folder(struct nvrtc *n, const char *folder)
{
    char file[4096];
    struct stat st;
    for (int i = 0; i < N_SONAMES; i++) {
        snprintf(file, sizeof file, "%s/%s", folder, sonames[i]);
        if (stat(file, &st) == 0 && open_file(n, file))
            return true;
    }
    return false;
}

static bool open_glob(struct nvrtc *n, const char *pattern)
{
    glob_t g;
    bool found = false;
    if (glob(pattern, 0, NULL, &g) != 0)
        return false;
    for (size_t i = 0; i < g.gl_pathc && !found; i++)
        found = open_folder(n, g.gl_pathv[i]);
    globfree(&g);
    return found;
}

/* Wheels near the library itself: in the same site-packages, or in the
 * virtual environment that the scripts make beside the build folder. */
static bool open_near_library(struct nvrtc *n)
{
    static const char *const near[] = {
        "/../nvidia/*/lib", "/../venv/lib/python3*/site-packages/nvidia/*/lib"};
    Dl_info info;
    char pattern[4096];
    if (!dladdr(stage_name, &info) || !info.dli_fname)
        return false;
    const char *slash = strrchr(info.dli_fname, '/');
    int len = slash ? (int)(slash - info.dli_fname) : 1;
    const char *folder = slash ? info.dli_fname : ".";
    for (size_t i = 0; i < sizeof near / sizeof near[0]; i++) {
        snprintf(pattern, sizeof pattern, "%.*s%s", len, folder, near[i]);
        if (open_glob(n, pattern))
            return true;
    }
    return false;
}

static bool open_usual(struct nvrtc *n)
{
    static const char *const toolkit[] = {"/usr/local/cuda/lib64",
                                          "/usr/local/cuda-*/lib64"};
    for (int i = 0; i < N_SONAMES; i++)
        if (open_file(n, sonames[i]))
            return true;
    for (size_t i = 0; i < sizeof toolkit / sizeof toolkit[0]; i++)
        if (open_glob(n, toolkit[i]))
            return true;
    return open_near_library(n);
}

static bool find(struct nvrtc *n, const char *where, struct diag *d)
{
    struct stat st;
    if (!where) {
        if (open_usual(n))
            return true;
        return diag_set(d, FACC_ERR_NO_NVRTC, stage_name, NULL, 0,
                        "no NVRTC found (libnvrtc.so.13 or .12 on the "
                        "loader's path, /usr/local/cuda, wheels beside "
                        "libfacc): install it with \"pip install "
                        "nvidia-cuda-nvrtc\" or the CUDA toolkit, or set "
                        "FACC_NVRTC to the library or its folder");
    }
    if (stat(where, &st) != 0)
        return diag_set(d, FACC_ERR_NO_NVRTC, stage_name, NULL, 0,
                        "%s, given as NVRTC (FACC_NVRTC), does not exist",
                        where);
    if (S_ISDIR(st.st_mode) ? open_folder(n, where) : open_file(n, where))
        return true;
    const char *why = dlerror();
    return diag_set(d, FACC_ERR_NO_NVRTC, stage_name, NULL, 0,
                    "NVRTC cannot be opened from %s: %s", where,
                    why ? why : "no libnvrtc.so.13 or .12 in this folder");
}

static bool resolve(struct nvrtc *n, struct diag *d)
{
    const char *missing = NULL;
    Dl_info info;
    void *version = dlsym(n->lib, "nvrtcVersion");
    if (version && dladdr(version, &info) && info.dli_fname)
        snprintf(n->path, sizeof n->path, "%s", info.dli_fname);
    *(void **)(&n->GetErrorString) = dlsym(n->lib, "nvrtcGetErrorString");
    if (!n->GetErrorString)
        missing = "nvrtcGetErrorString";
#define RESOLVE(name, params)                                                  \
    *(void **)(&n->name) = dlsym(n->lib, "nvrtc" #name);                       \
    if (!n->name)                                                              \
        missing = "nvrtc" #name;
    NVRTC_ENTRIES(RESOLVE)
#undef RESOLVE
    if (missing)
        return diag_set(d, FACC_ERR_NO_NVRTC, stage_name, NULL, 0,
                        "%s has no %s: facc needs NVRTC 12.0 or newer", n->path,
                        missing);
    if (n->Version(&n->major, &n->minor) != 0)
        n->major = n->minor = 0;
    if (nvrtc_version(n) < OLDEST)
        return diag_set(d, FACC_ERR_NO_NVRTC, stage_name, NULL, 0,
                        "%s is NVRTC %d.%d: facc needs 12.0 or newer; "
                        "install one (\"pip install nvidia-cuda-nvrtc\") and "
                        "point FACC_NVRTC to it",
                        n->path, n->major, n->minor);
    return true;
}

struct nvrtc *nvrtc_open(const char *where, struct diag *d)
{
    struct nvrtc *n = calloc(1, sizeof *n);
    if (!n) {
        diag_nomem(d, stage_name);
        return NULL;
    }
    if (!find(n, where, d) || !resolve(n, d)) {
        nvrtc_close(n);
        return NULL;
    }
    /* NVRTC leaks 71 KB each time it is unloaded: it stays in the process, and
     * the next context opens it at once. */
    void *again = dlopen(n->path, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    if (again)
        dlclose(again);
    return n;
}

void nvrtc_close(struct nvrtc *n)
{
    if (!n)
        return;
    if (n->lib)
        dlclose(n->lib);
    if (n->builtins)
        dlclose(n->builtins);
    free(n);
}

int nvrtc_version(const struct nvrtc *n)
{
    return n->major * 1000 + n->minor * 10;
}

const char *nvrtc_path(const struct nvrtc *n)
{
    return n->path;
}

/* ---- compiling ------------------------------------------------------ */

static void add_option(struct nvrtc_options *o, const char *text)
{
    snprintf(o->text[o->n++], NVRTC_OPTION_SIZE, "%s", text);
}

void nvrtc_options(const struct nvrtc_target *t, struct nvrtc_options *out)
{
    char arch[NVRTC_OPTION_SIZE];
    memset(out, 0, sizeof *out);
    snprintf(arch, sizeof arch, "-arch=sm_%d%s", t->arch, t->own ? "a" : "");
    add_option(out, arch);
    add_option(out, "--std=c++17");
    if (t->lineinfo)
        add_option(out, "-lineinfo");
}

static bool arch_supported(struct nvrtc *n, int arch, struct diag *d)
{
    int count = 0, list[256], newest = 0;
    bool found = false;
    if (n->GetNumSupportedArchs(&count) != 0 || count > 256 ||
        n->GetSupportedArchs(list) != 0)
        return true; /* then the compile itself tells */
    for (int i = 0; i < count; i++) {
        found = found || list[i] == arch;
        newest = list[i] > newest ? list[i] : newest;
    }
    if (found)
        return true;
    return diag_set(d, FACC_ERR_UNSUPPORTED, stage_name, NULL, 0,
                    "NVRTC %d.%d (%s) cannot compile for sm_%d: its newest "
                    "is sm_%d; install a newer NVRTC and point FACC_NVRTC "
                    "to it",
                    n->major, n->minor, n->path, arch, newest);
}

/* First number before `unit` on the line that starts at s, or -1. */
static long number_before(const char *line, size_t len, const char *unit)
{
    const char *at = memmem(line, len, unit, strlen(unit));
    if (!at)
        return -1;
    const char *s = at;
    while (s > line && s[-1] >= '0' && s[-1] <= '9')
        s--;
    return s < at ? strtol(s, NULL, 10) : -1;
}

/* Whether what follows in the log is about facc_forward: the kernels that make
 * schedules neither need its registers nor matter as much. */
static bool about_forward(const char *line, size_t len, bool before)
{
    static const char compiling[] = "Compiling entry function '";
    static const char forward[] = "facc_forward'";
    const char *at = memmem(line, len, compiling, sizeof compiling - 1);
    if (!at)
        return before;
    at += sizeof compiling - 1;
    return strncmp(at, forward, sizeof forward - 1) == 0;
}

void nvrtc_parse_log(const char *log, struct nvrtc_build *build)
{
    bool ours = true;
    build->registers = -1;
    build->spill_bytes = 0;
    build->serialized = strstr(log, "(C75") != NULL;
    for (const char *s = log; *s;) {
        size_t len = strcspn(s, "\n");
        ours = about_forward(s, len, ours);
        long r = number_before(s, len, " registers");
        long st = number_before(s, len, " bytes spill stores");
        long ld = number_before(s, len, " bytes spill loads");
        if (ours && r > build->registers)
            build->registers = (int)r;
        if (ours)
            build->spill_bytes += (int)((st > 0 ? st : 0) + (ld > 0 ? ld : 0));
        s += len + (s[len] == '\n');
    }
}

static void take_log(struct nvrtc *n, program_handle p,
                     struct nvrtc_build *build)
{
    size_t size = 0;
    if (n->GetProgramLogSize(p, &size) != 0 || size == 0)
        return;
    build->log = calloc(1, size + 1);
    if (build->log && n->GetProgramLog(p, build->log) != 0)
        build->log[0] = '\0';
    if (build->log)
        nvrtc_parse_log(build->log, build);
}

/* nvrtcVersion has no patch level; the comment on top of PTX has. */
static void name_compiler(struct nvrtc *n, const char *ptx,
                          struct nvrtc_build *build)
{
    const char *v = ptx ? strstr(ptx, ", V") : NULL;
    size_t len = v ? strspn(v + 3, "0123456789.") : 0;
    if (len > 0 && len < 20)
        snprintf(build->compiler, sizeof build->compiler, "NVRTC %.*s",
                 (int)len, v + 3);
    else
        snprintf(build->compiler, sizeof build->compiler, "NVRTC %d.%d",
                 n->major, n->minor);
}

static bool take_images(struct nvrtc *n, program_handle p, bool want_ptx,
                        struct nvrtc_build *build, struct diag *d)
{
    size_t size = 0;
    char *ptx = NULL;
    if (n->GetPTXSize(p, &size) == 0 && size > 1) {
        ptx = calloc(1, size + 1);
        if (ptx && n->GetPTX(p, ptx) != 0)
            ptx[0] = '\0';
    }
    name_compiler(n, ptx, build);
    if (want_ptx && ptx) {
        build->image = ptx;
        build->size = strlen(ptx);
        return true;
    }
    free(ptx);
    int r = want_ptx ? 0 : n->GetCUBINSize(p, &size);
    if (want_ptx || r != 0 || size == 0)
        return diag_set(d, FACC_ERR_COMPILE, stage_name, NULL, 0,
                        "NVRTC gave no %s: %s", want_ptx ? "PTX" : "cubin",
                        n->GetErrorString(r));
    build->image = malloc(size);
    if (!build->image)
        return diag_nomem(d, stage_name);
    build->size = size;
    r = n->GetCUBIN(p, build->image);
    return r == 0 || diag_set(d, FACC_ERR_COMPILE, stage_name, NULL, 0,
                              "nvrtcGetCUBIN failed: %s", n->GetErrorString(r));
}

static int run_compiler(struct nvrtc *n, program_handle p,
                        const struct nvrtc_target *t)
{
    struct nvrtc_options o;
    const char *argv[NVRTC_MAX_OPTIONS + 2];
    int argc = 0;
    nvrtc_options(t, &o);
    while (argc < o.n) {
        argv[argc] = o.text[argc];
        argc++;
    }
    argv[argc++] = "--ptxas-options=-v";
    /* NVRTC's own cache (12.9 on) would hide cold times and double disk. */
    if (nvrtc_version(n) >= 12090)
        argv[argc++] = "--no-cache";
    return n->CompileProgram(p, argc, argv);
}

static bool compile_failed(struct nvrtc *n, int r,
                           const struct nvrtc_build *build, struct diag *d)
{
    if (r == OUT_OF_MEMORY)
        return diag_set(d, FACC_ERR_MEMORY, stage_name, NULL, 0,
                        "NVRTC ran out of memory");
    const char *log = build->log ? build->log : "";
    const char *line = strstr(log, "error");
    while (line && line > log && line[-1] != '\n')
        line--;
    if (!line)
        line = log;
    return diag_set(
        d, r == COMPILATION ? FACC_ERR_COMPILE : FACC_ERR_INTERNAL, stage_name,
        NULL, 0, "NVRTC %d.%d refused the generated unit (%s): %.*s", n->major,
        n->minor, n->GetErrorString(r), (int)strcspn(line, "\n"), line);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bool nvrtc_compile(struct nvrtc *n, const struct cuda_unit *unit,
                   const struct nvrtc_target *t, bool ptx,
                   struct nvrtc_build *build, struct diag *d)
{
    double start = now();
    program_handle p = NULL;
    bool ok = false;
    memset(build, 0, sizeof *build);
    build->registers = -1;
    if (!arch_supported(n, t->arch, d))
        return false;
    size_t count = (size_t)unit->n_headers;
    const char **text = calloc(count * 2 + 1, sizeof *text);
    if (!text)
        return diag_nomem(d, stage_name);
    const char **name = text + count;
    for (size_t i = 0; i < count; i++) {
        text[i] = unit->headers[i].text;
        name[i] = unit->headers[i].name;
    }
    int r = n->CreateProgram(&p, unit->main_text, unit->main_name,
                             unit->n_headers, text, name);
    if (r != 0) {
        diag_set(d, r == OUT_OF_MEMORY ? FACC_ERR_MEMORY : FACC_ERR_INTERNAL,
                 stage_name, NULL, 0, "nvrtcCreateProgram failed: %s",
                 n->GetErrorString(r));
        goto out;
    }
    r = run_compiler(n, p, t);
    take_log(n, p, build);
    ok = r == 0 ? take_images(n, p, ptx, build, d)
                : compile_failed(n, r, build, d);
    build->seconds = now() - start;
out:
    if (p)
        n->DestroyProgram(&p);
    free(text);
    return ok;
}

void nvrtc_build_free(struct nvrtc_build *build)
{
    free(build->image);
    free(build->log);
    memset(build, 0, sizeof *build);
}
