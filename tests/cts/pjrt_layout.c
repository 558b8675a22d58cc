/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's own prototypes of the PJRT C API beside a vendor's header: places in the table, sizes and offsets are equal. It is compiled,
 * never run (tests/cts/pjrt.sh). */
#include <pjrt_c_api.h>

#include "backends/pjrt/api.h"

#define PLACE(i, f) _Static_assert(offsetof(pjrt_api, call) + sizeof(void *) * (i) == offsetof(PJRT_Api, f), #f)
#define SIZE(a, b) _Static_assert(sizeof(a) == sizeof(b), #a)
#define MEMBER(a, x, b, y) _Static_assert(offsetof(a, x) == offsetof(b, y), #a "." #x)

PLACE(PJRT_ERROR_DESTROY, PJRT_Error_Destroy);
PLACE(PJRT_ERROR_MESSAGE, PJRT_Error_Message);
PLACE(PJRT_PLUGIN_INITIALIZE, PJRT_Plugin_Initialize);
PLACE(PJRT_PLUGIN_ATTRIBUTES, PJRT_Plugin_Attributes);
PLACE(PJRT_EVENT_DESTROY, PJRT_Event_Destroy);
PLACE(PJRT_EVENT_AWAIT, PJRT_Event_Await);
PLACE(PJRT_CLIENT_CREATE, PJRT_Client_Create);
PLACE(PJRT_CLIENT_DESTROY, PJRT_Client_Destroy);
PLACE(PJRT_CLIENT_PLATFORM_NAME, PJRT_Client_PlatformName);
PLACE(PJRT_CLIENT_PLATFORM_VERSION, PJRT_Client_PlatformVersion);
PLACE(PJRT_CLIENT_ADDRESSABLE_DEVICES, PJRT_Client_AddressableDevices);
PLACE(PJRT_CLIENT_COMPILE, PJRT_Client_Compile);
PLACE(PJRT_CLIENT_BUFFER_FROM_HOST_BUFFER, PJRT_Client_BufferFromHostBuffer);
PLACE(PJRT_DEVICE_DESCRIPTION_ID, PJRT_DeviceDescription_Id);
PLACE(PJRT_DEVICE_DESCRIPTION_KIND, PJRT_DeviceDescription_Kind);
PLACE(PJRT_DEVICE_GET_DESCRIPTION, PJRT_Device_GetDescription);
PLACE(PJRT_DEVICE_MEMORY_STATS, PJRT_Device_MemoryStats);
PLACE(PJRT_EXECUTABLE_DESTROY, PJRT_Executable_Destroy);
PLACE(PJRT_EXECUTABLE_SERIALIZE, PJRT_Executable_Serialize);
PLACE(PJRT_LOADED_DESTROY, PJRT_LoadedExecutable_Destroy);
PLACE(PJRT_LOADED_GET_EXECUTABLE, PJRT_LoadedExecutable_GetExecutable);
PLACE(PJRT_LOADED_EXECUTE, PJRT_LoadedExecutable_Execute);
PLACE(PJRT_DESERIALIZE_AND_LOAD, PJRT_Executable_DeserializeAndLoad);
PLACE(PJRT_BUFFER_DESTROY, PJRT_Buffer_Destroy);
PLACE(PJRT_BUFFER_TO_HOST_BUFFER, PJRT_Buffer_ToHostBuffer);
PLACE(PJRT_COMPILED_MEMORY_STATS, PJRT_Executable_GetCompiledMemoryStats);
SIZE(pjrt_named_value, PJRT_NamedValue);
SIZE(pjrt_id_args, PJRT_DeviceDescription_Id_Args);
SIZE(pjrt_client_create_args, PJRT_Client_Create_Args);
SIZE(pjrt_compile_args, PJRT_Client_Compile_Args);
SIZE(pjrt_program, PJRT_Program);
SIZE(pjrt_from_host_args, PJRT_Client_BufferFromHostBuffer_Args);
SIZE(pjrt_to_host_args, PJRT_Buffer_ToHostBuffer_Args);
SIZE(pjrt_execute_options, PJRT_ExecuteOptions);
SIZE(pjrt_execute_args, PJRT_LoadedExecutable_Execute_Args);
SIZE(pjrt_serialize_args, PJRT_Executable_Serialize_Args);
SIZE(pjrt_deserialize_args, PJRT_Executable_DeserializeAndLoad_Args);
SIZE(pjrt_device_memory_args, PJRT_Device_MemoryStats_Args);
SIZE(pjrt_compiled_memory_args, PJRT_Executable_GetCompiledMemoryStats_Args);
MEMBER(pjrt_id_args, id, PJRT_DeviceDescription_Id_Args, id);
MEMBER(pjrt_from_host_args, done, PJRT_Client_BufferFromHostBuffer_Args, done_with_host_buffer);
MEMBER(pjrt_execute_args, done, PJRT_LoadedExecutable_Execute_Args, device_complete_events);
MEMBER(pjrt_execute_options, kept, PJRT_ExecuteOptions, non_donatable_input_indices);
MEMBER(pjrt_device_memory_args, limit, PJRT_Device_MemoryStats_Args, bytes_limit);
MEMBER(pjrt_compiled_memory_args, temporary, PJRT_Executable_GetCompiledMemoryStats_Args, temp_size_in_bytes);
MEMBER(pjrt_serialize_args, release, PJRT_Executable_Serialize_Args, serialized_executable_deleter);
MEMBER(pjrt_client_create_args, client, PJRT_Client_Create_Args, client);
_Static_assert((int)PJRT_PRED == (int)PJRT_Buffer_Type_PRED, "PRED");
_Static_assert((int)PJRT_S8 == (int)PJRT_Buffer_Type_S8, "S8");
_Static_assert((int)PJRT_S32 == (int)PJRT_Buffer_Type_S32, "S32");
_Static_assert((int)PJRT_U8 == (int)PJRT_Buffer_Type_U8, "U8");
_Static_assert((int)PJRT_F16 == (int)PJRT_Buffer_Type_F16, "F16");
_Static_assert((int)PJRT_F32 == (int)PJRT_Buffer_Type_F32, "F32");
_Static_assert((int)PJRT_BF16 == (int)PJRT_Buffer_Type_BF16, "BF16");
