/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The AMX block kernel, written on six tile operations so that the same text runs on the real tiles (isa_amx.c) and on
 * emulated ones (isa_amx_emu.c). Tiles 0-3: sums of 16 x 16; 4, 5: A, 16 rows of 32 bf16; 6, 7: B, 16 pairs of k by
 * 16 columns. A: [kblock][32 rows][32 k]; B: [k/2][32 columns][2].
 */

typedef float amx_line __attribute__((vector_size(64), aligned(4), may_alias));

/* the sums of a tile to C through one hot buffer: stores to C itself may alias the loads of A and B at 4 KiB */
static void amx_put(const float *t, float *c, size_t ldc, size_t rows, size_t cols, int add)
{
    if (cols == 16) {
        for (size_t i = 0; i < rows; i++, t += 16, c += ldc) {
            amx_line sum = *(const amx_line *)t;
            if (add)
                sum += *(const amx_line *)c;
            *(amx_line *)c = sum;
        }
        return;
    }
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            c[i * ldc + j] = add ? c[i * ldc + j] + t[i * 16 + j] : t[i * 16 + j];
}

static size_t amx_part(size_t n, size_t from)
{
    return n <= from ? 0 : n - from < 16 ? n - from : 16;
}

void AMX_NAME(size_t kblocks, const void *av, const void *bv, float *c, size_t ldc, size_t mb, size_t nb, int add)
{
    const char *a = av, *b = bv;
    float t[16 * 16] __attribute__((aligned(64)));
    T_ZERO(0);
    T_ZERO(1);
    T_ZERO(2);
    T_ZERO(3);
    for (size_t k = 0; k < kblocks; k++, a += 2048, b += 2048) {
        T_LOAD(4, a, 64);
        T_LOAD(6, b, 128);
        T_LOAD(7, b + 64, 128);
        T_DOT(0, 4, 6);
        T_DOT(1, 4, 7);
        T_LOAD(5, a + 1024, 64);
        T_DOT(2, 5, 6);
        T_DOT(3, 5, 7);
    }
    T_STORE(0, t, 64);
    amx_put(t, c, ldc, amx_part(mb, 0), amx_part(nb, 0), add);
    T_STORE(1, t, 64);
    amx_put(t, c + 16, ldc, amx_part(mb, 0), amx_part(nb, 16), add);
    T_STORE(2, t, 64);
    amx_put(t, c + 16 * ldc, ldc, amx_part(mb, 16), amx_part(nb, 0), add);
    T_STORE(3, t, 64);
    amx_put(t, c + 16 * ldc + 16, ldc, amx_part(mb, 16), amx_part(nb, 16), add);
}
