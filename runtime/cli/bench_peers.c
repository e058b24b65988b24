/* Beside PyTorch's kernels: finds Python and tests/bench/bench_hopper.py and
 * runs that, with the library of this command. Called by cmd_bench.c. */
#include "runtime/cli/bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATH_SIZE = 4096 };

/* Folder of this executable, without a slash at its end; "" where the system
 * does not say. */
static void own_folder(char out[PATH_SIZE])
{
    ssize_t n = readlink("/proc/self/exe", out, PATH_SIZE - 1);
    out[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(out, '/');
    if (slash)
        *slash = '\0';
}

/* folder/rest, if there is such a file. */
static bool found(const char *folder, const char *rest, char out[PATH_SIZE])
{
    int n = snprintf(out, PATH_SIZE, "%s/%s", folder, rest);
    return n > 0 && n < PATH_SIZE && access(out, R_OK) == 0;
}

/* The driver: where FACC_BENCH says, installed beside the executable, or in
 * the source tree around the executable or the current folder. */
static bool find_driver(char out[PATH_SIZE])
{
    static const char source[] = "tests/bench/bench_hopper.py";
    const char *named = getenv("FACC_BENCH");
    char folder[PATH_SIZE];
    if (named && *named) {
        snprintf(out, PATH_SIZE, "%s", named);
        return access(out, R_OK) == 0;
    }
    own_folder(folder);
    if (found(folder, "../share/facc/bench/bench_hopper.py", out))
        return true;
    for (char *slash; (slash = strrchr(folder, '/')); *slash = '\0')
        if (found(folder, source, out))
            return true;
    return found(".", source, out);
}

/* Exit code of a command; -1 if it could not be run. quiet: no output. */
static int run(char *const argv[], bool quiet)
{
    fflush(stdout);
    pid_t child = fork();
    if (child < 0)
        return -1;
    if (child == 0) {
        if (quiet && (!freopen("/dev/null", "w", stdout) ||
                      !freopen("/dev/null", "w", stderr)))
            _exit(127);
        execvp(argv[0], argv);
        _exit(127);
    }
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static int missing(const char *what)
{
    printf("\npeers     not compared: %s\n", what);
    return EXIT_OK;
}

/* out.csv gives out_peers.csv. */
static void peers_csv(const char *csv, char out[PATH_SIZE])
{
    size_t n = strlen(csv);
    if (n > 4 && !strcmp(csv + n - 4, ".csv"))
        n -= 4;
    snprintf(out, PATH_SIZE, "%.*s_peers.csv", (int)n, csv);
}

static void set_environment(int device)
{
    char folder[PATH_SIZE], library[PATH_SIZE], ordinal[16];
    own_folder(folder);
    if (found(folder, "libfacc.so", library) ||
        found(folder, "../lib/libfacc.so", library))
        setenv("FACC_LIBRARY", library, 0);
    if (device > 0) {
        snprintf(ordinal, sizeof ordinal, "%d", device);
        setenv("CUDA_VISIBLE_DEVICES", ordinal, 1);
    }
}

int bench_peers(const struct options *o, int device)
{
    char driver[PATH_SIZE], csv[PATH_SIZE];
    const char *named = getenv("FACC_PYTHON");
    char *python = cli_strdup(named && *named ? named : "python3");
    int rc = EXIT_OK;
    char command[] = "-c", import[] = "import torch", to_csv[] = "--csv";
    char *probe[] = {python, command, import, NULL};
    char *compare[] = {python, driver, NULL, csv, NULL};
    if (run(probe, true) != 0)
        rc = missing("FACC_PYTHON (or python3) cannot import torch");
    else if (!find_driver(driver))
        rc = missing("bench_hopper.py is not found; FACC_BENCH names it");
    else if (device < 0)
        rc = missing("PyTorch's kernels are compared on a GPU");
    else {
        if (o->csv) {
            peers_csv(o->csv, csv);
            compare[2] = to_csv;
        }
        set_environment(device);
        int code = run(compare, false);
        /* 1: some row is below what it has to reach; the table says so */
        rc = code == 0 || code == 1
                 ? EXIT_OK
                 : cli_fail("%s ended with %d", driver, code);
    }
    free(python);
    return rc;
}
