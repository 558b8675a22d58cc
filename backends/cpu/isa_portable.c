/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for any machine: four lanes, which compilers have for SSE2, NEON and the RISC-V vector set. */
#include "cpu.h"

#define CPU_VW 4
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

const cpu_isa cpu_isa_portable = {.name = "portable", CPU_ISA_COMMON};
