/* A job on the GPU: device copies of its tensors, kernel, launches. Called
 * by run, check and bench. */
#include "runtime/cli/cli.h"

#include <stdio.h>
#include <string.h>

static int upload(struct job *job, const facc_tensor *host, facc_tensor *dev)
{
    facc_error err = FACC_ERROR_INIT;
    size_t bytes = tensor_bytes(host);
    *dev = *host;
    if (facc_device_alloc(&dev->data, job->ctx, job->device, bytes ? bytes : 1,
                          &err))
        return cli_fail_facc(&err);
    if (bytes && facc_device_upload(job->ctx, job->device, dev->data,
                                    host->data, bytes, &err))
        return cli_fail_facc(&err);
    return EXIT_OK;
}

static int upload_all(struct job *job, struct gpu_job *g)
{
    const facc_args *h = &job->args;
    const facc_tensor *from[5] = {&h->q, &h->k, &h->v, &h->o, &h->lse};
    facc_tensor *to[5] = {&g->args.q, &g->args.k, &g->args.v, &g->args.o,
                          &g->args.lse};
    for (int i = 0; i < 5; i++) { /* o and lse: zeros, where no row is */
        int rc = upload(job, from[i], to[i]);
        if (rc)
            return rc;
    }
    for (int i = 0; i < h->n_tensors; i++) {
        int rc = upload(job, &h->tensors[i], &g->tensors[i]);
        if (rc)
            return rc;
    }
    for (int i = 0; i < SEQ_ARRAYS; i++) {
        if (!job->sequences[i].t.data)
            continue;
        int rc = upload(job, &job->sequences[i].t, &g->sequences[i]);
        if (rc)
            return rc;
        sequences_set(&g->args, (enum sequence_array)i, g->sequences[i].data);
    }
    for (int i = 0; i < FP8_ARRAYS; i++) {
        if (!job->fp8[i].t.data)
            continue;
        int rc = upload(job, &job->fp8[i].t, &g->fp8[i]);
        if (rc)
            return rc;
        fp8_set(&g->args, (enum fp8_array)i, &g->fp8[i]);
    }
    if (h->sinks) {
        g->args.sinks = &g->sinks;
        return upload(job, h->sinks, &g->sinks);
    }
    return EXIT_OK;
}

/* Where the launch keeps its schedule, for masks that have one. */
static int make_workspace(struct job *job, struct gpu_job *g)
{
    facc_error err = FACC_ERROR_INIT;
    size_t align;
    facc_status s = facc_workspace_size(g->kernel, &g->args,
                                        &g->args.workspace_size, &align);
    if (s)
        return cli_fail("the workspace's size: %s", facc_status_name(s));
    if (g->args.workspace_size &&
        facc_device_alloc(&g->args.workspace, job->ctx, job->device,
                          g->args.workspace_size, &err))
        return cli_fail_facc(&err);
    return EXIT_OK;
}

int gpu_prepare(struct job *job, struct gpu_job *g)
{
    facc_error err = FACC_ERROR_INIT;
    *g = (struct gpu_job){.job = job, .args = job->args};
    if (facc_kernel_check(job->ctx, job->program, &job->variant, &job->args,
                          &err) ||
        facc_kernel_get(&g->kernel, job->ctx, job->program, &job->variant,
                        &err) ||
        facc_kernel_load(g->kernel, job->device, &err))
        return cli_fail_facc(&err);
    int rc = upload_all(job, g);
    if (rc)
        return rc;
    g->args.tensors = g->tensors;
    g->args.device = job->device;
    rc = make_workspace(job, g);
    if (!rc && facc_timer_create(&g->timer, job->ctx, job->device, &err))
        rc = cli_fail_facc(&err);
    return rc;
}

int gpu_launch(struct gpu_job *g)
{
    facc_error err = FACC_ERROR_INIT;
    if (facc_kernel_launch(g->kernel, &g->args, facc_timer_stream(g->timer),
                           &err))
        return cli_fail_facc(&err);
    return EXIT_OK;
}

int gpu_fetch(struct gpu_job *g)
{
    facc_error err = FACC_ERROR_INIT;
    struct job *job = g->job;
    const facc_tensor *to[2] = {&job->args.o, &job->args.lse};
    const facc_tensor *from[2] = {&g->args.o, &g->args.lse};
    for (int i = 0; i < 2; i++) {
        size_t bytes = tensor_bytes(to[i]);
        if (bytes && facc_device_download(job->ctx, job->device, to[i]->data,
                                          from[i]->data, bytes, &err))
            return cli_fail_facc(&err);
    }
    return EXIT_OK;
}

void gpu_finish(struct gpu_job *g)
{
    struct job *job = g->job;
    const facc_args *h = &job->args, *d = &g->args;
    const facc_tensor *host[5] = {&h->q, &h->k, &h->v, &h->o, &h->lse};
    const facc_tensor *dev[5] = {&d->q, &d->k, &d->v, &d->o, &d->lse};
    for (int i = 0; i < 5; i++)
        if (dev[i]->data != host[i]->data) /* else not uploaded yet */
            facc_device_free(job->ctx, job->device, dev[i]->data);
    for (int i = 0; i < job->args.n_tensors; i++)
        if (g->tensors[i].data)
            facc_device_free(job->ctx, job->device, g->tensors[i].data);
    for (int i = 0; i < SEQ_ARRAYS; i++)
        if (g->sequences[i].data)
            facc_device_free(job->ctx, job->device, g->sequences[i].data);
    for (int i = 0; i < FP8_ARRAYS; i++)
        if (g->fp8[i].data)
            facc_device_free(job->ctx, job->device, g->fp8[i].data);
    if (g->sinks.data)
        facc_device_free(job->ctx, job->device, g->sinks.data);
    if (g->args.workspace)
        facc_device_free(job->ctx, job->device, g->args.workspace);
    facc_timer_free(g->timer);
    facc_kernel_free(g->kernel);
}
