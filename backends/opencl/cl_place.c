/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The place of a device, by which the host recognises one that another plugin lists too: its address on the PCI bus, or its UUID. cl_list.c
 * asks for each device, in any thread.
 *
 * The address comes by cl_khr_pci_bus_info or its vendor's extension, the UUID by cl_khr_device_uuid. A processor has neither: every plugin
 * that names its cores shares them.
 */
#include "backends/opencl/ocl.h"

#include <CL/cl_ext.h>
#include <stdio.h>

#include "plugins/kit/devices.h"

/* cl_nv_device_attribute_query, of which the headers have only a part */
#define NV_PCI_BUS_ID 0x4008
#define NV_PCI_SLOT_ID 0x4009
#define NV_PCI_DOMAIN_ID 0x400A

typedef struct pci_place {
    cl_uint domain, bus, device, function;
} pci_place;

/* Result of cl_amd_device_attribute_query for CL_DEVICE_TOPOLOGY_AMD. */
typedef struct amd_topology {
    cl_uint type; /* 1: PCI Express */
    char unused[17];
    signed char bus, device, function;
} amd_topology;

static bool info_read(cl_device_id id, cl_device_info what, void *value, size_t bytes)
{
    size_t n = 0;
    return clGetDeviceInfo(id, what, bytes, value, &n) == CL_SUCCESS && n == bytes;
}

static bool place_read(cl_device_id id, pci_place *place)
{
    amd_topology amd;
    cl_uint slot;
    if (info_read(id, CL_DEVICE_PCI_BUS_INFO_KHR, place, sizeof *place))
        return true;
    if (info_read(id, CL_DEVICE_TOPOLOGY_AMD, &amd, sizeof amd) && amd.type == 1) {
        *place = (pci_place){0, (unsigned char)amd.bus, (unsigned char)amd.device, (unsigned char)amd.function};
        return true;
    }
    if (!info_read(id, NV_PCI_BUS_ID, &place->bus, sizeof place->bus) || !info_read(id, NV_PCI_SLOT_ID, &slot, sizeof slot))
        return false;
    if (!info_read(id, NV_PCI_DOMAIN_ID, &place->domain, sizeof place->domain))
        place->domain = 0;
    place->device = slot >> 3;
    place->function = slot & 7;
    return true;
}

void ocl_device_place(cl_device_id id, char text[64])
{
    pci_place place;
    unsigned char uuid[KIT_UUID];
    if (ocl_device_number(id, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU)
        return;
    if (place_read(id, &place))
        snprintf(text, 64, "pci:%04x:%02x:%02x.%x", place.domain, place.bus, place.device, place.function);
    else if (info_read(id, CL_DEVICE_UUID_KHR, uuid, sizeof uuid))
        kit_uuid_text(uuid, text);
}
