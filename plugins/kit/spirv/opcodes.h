/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of the SPIR-V specification (unified 1.6, sections 3.4 to 3.49) that the translator writes. */
#ifndef YOKE_PLUGINS_KIT_SPIRV_OPCODES_H
#define YOKE_PLUGINS_KIT_SPIRV_OPCODES_H

#define SPV_MAGIC 0x07230203u
#define SPV_VERSION 0x00010500u

enum { /* instructions */
    OpExtension = 10, OpExtInstImport = 11, OpExtInst = 12, OpMemoryModel = 14, OpEntryPoint = 15, OpExecutionMode = 16,
    OpCapability = 17, OpTypeVoid = 19, OpTypeBool = 20, OpTypeInt = 21, OpTypeFloat = 22, OpTypeVector = 23, OpTypeArray = 28,
    OpTypeStruct = 30, OpTypePointer = 32, OpTypeFunction = 33, OpConstant = 43, OpConstantNull = 46, OpFunction = 54,
    OpFunctionEnd = 56, OpVariable = 59, OpLoad = 61, OpStore = 62, OpAccessChain = 65, OpDecorate = 71, OpMemberDecorate = 72,
    OpCompositeExtract = 81, OpConvertFToU = 109, OpConvertFToS = 110, OpConvertSToF = 111, OpConvertUToF = 112, OpUConvert = 113,
    OpSConvert = 114, OpConvertUToPtr = 120, OpBitcast = 124, OpSNegate = 126, OpFNegate = 127, OpIAdd = 128, OpFAdd = 129,
    OpISub = 130, OpFSub = 131, OpIMul = 132, OpFMul = 133, OpUDiv = 134, OpSDiv = 135, OpFDiv = 136, OpUMod = 137, OpSRem = 138,
    OpLogicalOr = 166, OpLogicalAnd = 167, OpLogicalNot = 168, OpSelect = 169, OpIEqual = 170, OpINotEqual = 171,
    OpUGreaterThan = 172, OpSGreaterThan = 173, OpUGreaterThanEqual = 174, OpSGreaterThanEqual = 175, OpULessThan = 176,
    OpSLessThan = 177, OpULessThanEqual = 178, OpSLessThanEqual = 179, OpFOrdEqual = 180, OpFUnordNotEqual = 183, OpFOrdLessThan = 184,
    OpFOrdGreaterThan = 186, OpFOrdLessThanEqual = 188, OpFOrdGreaterThanEqual = 190, OpShiftRightLogical = 194,
    OpShiftRightArithmetic = 195, OpShiftLeftLogical = 196, OpBitwiseOr = 197, OpBitwiseXor = 198, OpBitwiseAnd = 199, OpNot = 200,
    OpControlBarrier = 224, OpLoopMerge = 246, OpSelectionMerge = 247, OpLabel = 248, OpBranch = 249, OpBranchConditional = 250,
    OpReturn = 253, OpGroupNonUniformBroadcast = 337, OpTypeCooperativeMatrix = 4456, OpCooperativeMatrixLoad = 4457,
    OpCooperativeMatrixStore = 4458, OpCooperativeMatrixMulAdd = 4459
};

enum { /* capabilities */
    CapShader = 1, CapFloat16 = 9, CapInt64 = 11, CapSubgroup = 61, CapSubgroupBallot = 64, CapStorageBuffer16 = 4433,
    CapStorageBuffer8 = 4448, CapKeepNan = 4466, CapBfloat16 = 5116, CapBfloat16Matrix = 5118, CapVulkanMemory = 5345, CapAddresses = 5347,
    CapCooperativeMatrix = 6022
};

enum { /* storage classes, models, modes, decorations, built-in variables, functions of GLSL.std.450 */
    ClassInput = 1, ClassWorkgroup = 4, ClassFunction = 7, ClassPushConstant = 9, ClassBuffer = 5349,
    ModelAddresses64 = 5348, ModelGlsl450 = 1, ModelVulkan = 3, ModelCompute = 5,
    ModeLocalSize = 17, ModeKeepNan = 4461,
    DecorBlock = 2, DecorBuiltIn = 11, DecorOffset = 35, DecorNoContraction = 42,
    BuiltInWorkgroupId = 26, BuiltInLocalInvocationId = 27, BuiltInSubgroupId = 40, EncodingBfloat16 = 0,
    LayoutRows = 0, LayoutColumns = 1,
    GlslSqrt = 31, GlslFma = 50,
    MemoryAligned = 2, MemoryNonPrivate = 0x20, ScopeWorkgroup = 2, ScopeSubgroup = 3,
    SemanticsLocal = 0x108,     /* acquire and release, of workgroup memory */
    SemanticsAvailable = 0x6000 /* in the Vulkan memory model: and it is made available, and visible */
};

#endif
