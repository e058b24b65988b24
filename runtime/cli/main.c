/* facc: hands argv over to the subcommand that its first word names; help and
 * version are its own. */
#include "runtime/cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct command *const commands[] = {
    &command_run,     &command_check,  &command_bench,   &command_mask,
    &command_compile, &command_emit,   &command_explain, &command_quantize,
    &command_cache,   &command_doctor,
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static void print_help(FILE *f)
{
    fputs("facc: attention variants, compiled at run time\n\n"
          "usage: facc COMMAND [ARGUMENTS]\n\n",
          f);
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(f, "  %-8s  %s\n", commands[i]->name, commands[i]->summary);
    fputs("\nfacc COMMAND --help explains a command, with an example.\n"
          "facc --version prints the version.\n\n"
          "Exit codes: 0 done, 1 failure, 2 wrong usage.\n",
          f);
}

/* A descriptor that was closed by whoever started us would be the next file
 * that is opened: results would be written into it. */
static void keep_standard_descriptors(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
}

/* Results that could not be written are a failure, also on stdout. */
static int finish(int rc)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return rc;
    (void)cli_fail("writing the output failed: %s", strerror(errno));
    return rc ? rc : EXIT_FAILED;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (!strcmp(name, "--version")) {
        printf("facc %s\n", facc_version());
        return EXIT_OK;
    }
    if (!strcmp(name, "--help") || !strcmp(name, "-h") ||
        !strcmp(name, "help")) {
        print_help(stdout);
        return EXIT_OK;
    }
    for (int i = 0; i < N_COMMANDS; i++)
        if (!strcmp(name, commands[i]->name))
            return commands[i]->run(argc - 1, argv + 1);
    fprintf(stderr, "facc: error: there is no command '%s'\nTry: facc --help\n",
            name);
    return EXIT_USAGE;
}

int main(int argc, char **argv)
{
    keep_standard_descriptors();
    return finish(dispatch(argc, argv));
}
