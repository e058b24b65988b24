/* facc doctor: what is there, what is missing and how to get it. In:
 * the machine. Out: a report or JSON on stdout. */
#include "runtime/cli/cli.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

static const char help[] =
    "usage: facc doctor [--json]\n"
    "\n"
    "Driver, GPUs, NVRTC, cache and CPU as facc finds them; what is missing\n"
    "and how to get it. Exit code 0 also where there is no GPU: the CPU path\n"
    "works.\n"
    "\n"
    "example: facc doctor\n";

static const char *const allowed[] = {"json", NULL};

static void print_devices(facc_ctx *ctx, const facc_system_info *s)
{
    for (int d = 0; d < s->device_count; d++) {
        facc_error err = FACC_ERROR_INIT;
        facc_device_info i = FACC_DEVICE_INFO_INIT;
        if (facc_device_info_get(ctx, d, &i, &err))
            printf("GPU %d    %s\n", d, err.message);
        else
            printf("GPU %d    %s, sm_%d, %d multiprocessors, %.1f GB\n", d,
                   i.name, i.arch, i.multiprocessors,
                   (double)i.memory_bytes * 1e-9);
    }
}

static void print_text(facc_ctx *ctx, const facc_system_info *s)
{
    printf("facc     %s\n", facc_version());
    if (s->driver_found)
        printf("driver   CUDA %d.%d, %s\n", s->driver_version / 1000,
               s->driver_version % 1000 / 10, s->driver_path);
    else
        printf("driver   none: %s\n"
               "         (programs run on the CPU; for a GPU install NVIDIA's "
               "driver)\n",
               s->driver_error);
    print_devices(ctx, s);
    if (s->nvrtc_found)
        printf("NVRTC    %d.%d, %s\n", s->nvrtc_version / 1000,
               s->nvrtc_version % 1000 / 10, s->nvrtc_path);
    else
        printf("NVRTC    none: %s\n"
               "         (cached kernels still run; to compile new ones: pip "
               "install 'nvidia-cuda-nvrtc==13.0.*'\n"
               "         and set FACC_NVRTC to its lib folder, or install the "
               "CUDA toolkit)\n",
               s->nvrtc_error);
    if (s->cache_writable)
        printf("cache    %s\n", s->cache_dir);
    else
        printf("cache    memory only: %s\n"
               "         (set FACC_CACHE_DIR to a directory of your own)\n",
               s->cache_error);
    printf("CPU      %d threads, %s\n", s->cpu_threads, s->cpu_isa);
}

static int print_json(const facc_system_info *s)
{
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "version", facc_version());
    cJSON_AddBoolToObject(j, "driver_found", s->driver_found != 0);
    cJSON_AddNumberToObject(j, "driver_version", s->driver_version);
    cJSON_AddStringToObject(j, "driver_error", s->driver_error);
    cJSON_AddNumberToObject(j, "device_count", s->device_count);
    cJSON_AddBoolToObject(j, "nvrtc_found", s->nvrtc_found != 0);
    cJSON_AddNumberToObject(j, "nvrtc_version", s->nvrtc_version);
    cJSON_AddStringToObject(j, "nvrtc_path", s->nvrtc_path);
    cJSON_AddStringToObject(j, "nvrtc_error", s->nvrtc_error);
    cJSON_AddStringToObject(j, "cache_dir", s->cache_dir);
    cJSON_AddBoolToObject(j, "cache_writable", s->cache_writable != 0);
    cJSON_AddStringToObject(j, "cache_error", s->cache_error);
    cJSON_AddNumberToObject(j, "cpu_threads", s->cpu_threads);
    cJSON_AddStringToObject(j, "cpu_isa", s->cpu_isa);
    return cli_print_json(j);
}

static int run(int argc, char **argv)
{
    struct options o;
    facc_ctx *ctx;
    facc_error err = FACC_ERROR_INIT;
    facc_system_info s = FACC_SYSTEM_INFO_INIT;
    int rc = options_parse(&command_doctor, argc, argv, allowed, &o);
    if (rc)
        return rc < 0 ? EXIT_OK : rc;
    if (o.n_positional)
        return cli_usage(&command_doctor, "'%s' is one too many", o.file);
    if (facc_ctx_create(&ctx, NULL, &err) || facc_system(ctx, &s, &err))
        return cli_fail_facc(&err);
    if (o.json)
        rc = print_json(&s);
    else
        print_text(ctx, &s);
    facc_ctx_free(ctx);
    return rc;
}

const struct command command_doctor = {
    "doctor", "what is there, what is missing, how to get it", help, run};
