/* SPDX-License-Identifier: Apache-2.0 */
/* The peer of bench/collectives_yoke over MPI: the same operations, sizes and times. Built by bench/collectives, with mpicc. */
#include <mpi.h>

#include "bench/sizes.h"

static void call_operation(int operation, const float *from, float *to, uint64_t n, int ranks)
{
    const int part = (int)(n / (uint64_t)ranks);
    if (operation == ALL_REDUCE)
        MPI_Allreduce(from, to, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else if (operation == REDUCE_SCATTER)
        MPI_Reduce_scatter_block(from, to, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else
        MPI_Allgather(from, part, MPI_FLOAT, to, part, MPI_FLOAT, MPI_COMM_WORLD);
}

/* Seconds of the slowest rank. */
static double time_calls(int operation, const float *from, float *to, uint64_t n, int ranks, int calls)
{
    double seconds;
    MPI_Barrier(MPI_COMM_WORLD);
    seconds = sizes_now();
    for (int i = 0; i < calls; i++)
        call_operation(operation, from, to, n, ranks);
    seconds = (sizes_now() - seconds) / calls;
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return seconds;
}

int main(int argc, char **argv)
{
    const uint64_t most = argc > 1 ? strtoull(argv[1], NULL, 10) : SIZES_MOST;
    float *from = calloc(most, 1), *to = calloc(most, 1);
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int operation = 0; operation < OPERATIONS; operation++)
        for (uint64_t bytes = SIZES_LEAST; bytes <= most; bytes *= SIZES_STEP) {
            double seconds[SIZES_BATCHES], first = time_calls(operation, from, to, bytes / 4, ranks, 1);
            first = time_calls(operation, from, to, bytes / 4, ranks, 2);
            for (int i = 0; i < SIZES_BATCHES; i++)
                seconds[i] = time_calls(operation, from, to, bytes / 4, ranks, sizes_calls(first));
            first = sizes_median(seconds);
            if (rank == 0)
                sizes_print(operation, bytes, first);
        }
    MPI_Finalize();
    free(to);
    free(from);
    return 0;
}
