/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for AVX-512 (F, BW, DQ, VL): sixteen lanes. */
#include "cpu.h"

#if defined __x86_64__
#include "target.h"
CPU_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
#define CPU_VW 16
#include "vec.h"
#include "vmath.h"
#include "kern_pack.h"
#include "kern_map.h"
#include "kern_half.h"
#include "kern_chain.h"
#include "kern_gelu.h"
#include "kern_rows.h"
#include "kern_half_rows.h"
#include "kern_wino.h"
#include "kern_pool.h"
#include "kern_f32.h"
#include "kern_isa.h"

const cpu_isa cpu_isa_avx512 = {.name = "avx512", CPU_ISA_COMMON};
CPU_TARGET_END
#endif
