/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two unlike devices train one model. The program starts itself once for each device, each batch is split by their measured speed,
 * and both end with the same bits. The '!' keeps a device in the job even if the job would be faster without it.
 *
 *   two_devices IDX-DIR [SPECS [STEPS]]     such as "cpu:0! opencl:0@1!" (a core each), or "cpu! opencl:0!" beside a graphics card
 */
#include <stdio.h>
#include <stdlib.h>
#include <yoke/yoke.h>

int main(int argc, char **argv)
{
    if (argc < 2)
        return fprintf(stderr, "usage: two_devices IDX-DIR [SPECS [STEPS]]\n"), 2;
    const int code = yk_launch(argc > 2 ? argv[2] : "cpu:0! opencl:0@1!", argv);
    if (code >= 0)
        return code; /* the ranks have trained, as separate processes */

    char spec[4096];
    snprintf(spec, sizeof spec, "idx:%s", argv[1]);
    const uint64_t steps = argc > 3 ? strtoull(argv[3], NULL, 10) : 400;
    yk_job *job = yk_open(&(yk_config){.seed = 42});
    yk_data *data = yk_data_open(job, spec, &(yk_data_config){.global_batch = 128}); /* rows over both devices */
    yk_model *net = yk_model_new(job, "mlp", "hidden=128", data);
    yk_opt *opt = yk_adamw(job, &(yk_adam_config){.lr = 1e-3});
    while (yk_ok(job) && yk_steps(opt) < steps) {
        yk_each (batch, job, data) { /* batch.rows: this rank's part of the 128 */
            yk_backward(yk_model_loss(net, &batch, yk_forward(net, &batch)));
            yk_step(opt);
            if (yk_steps(opt) >= steps)
                break;
        }
    }
    yk_print(job, "step %llu: loss %.4f\n", (unsigned long long)yk_steps(opt), yk_step_loss(opt));
    for (uint32_t rank = 0; rank < yk_world_size(job); rank++)
        yk_print(job, "rank %u, %s: %.1f %% of the rows\n", rank, yk_device_name(job, rank), 100 * yk_share(job, rank));
    const uint64_t hash = yk_param_hash(job); /* fails the job if the ranks' hashes differ */
    yk_print(job, "parameters %016llx on all ranks\n", (unsigned long long)hash);
    return yk_close(job);
}
