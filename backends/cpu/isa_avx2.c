/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for AVX2 with FMA and F16C: eight lanes. */
#include "cpu.h"

#if defined __x86_64__
#include "target.h"
CPU_TARGET_BEGIN("avx2,fma,f16c")
#define CPU_VW 8
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

const cpu_isa cpu_isa_avx2 = {.name = "avx2", CPU_ISA_COMMON};
CPU_TARGET_END
#endif
