# SPDX-License-Identifier: Apache-2.0
if WITH_VULKAN
plugin_LTLIBRARIES += yoke_vulkan.la
yoke_vulkan_la_SOURCES = backends/vulkan/vk_cache.c backends/vulkan/vk_coop.c backends/vulkan/vk_coop.h backends/vulkan/vk_device.c \
	backends/vulkan/vk_host.c backends/vulkan/limits.c backends/vulkan/vk_list.c backends/vulkan/vk_memory.c \
	backends/vulkan/pipeline.c backends/vulkan/vk_plugin.c backends/vulkan/vk_probe.c backends/vulkan/vk_profile.c \
	backends/vulkan/vk_program.c backends/vulkan/vk_queue.c backends/vulkan/vlk.h backends/vulkan/work.c
yoke_vulkan_la_CFLAGS = $(AM_CFLAGS) $(CONVERSION) $(VULKAN_CFLAGS)
yoke_vulkan_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -export-symbols-regex '^yk_plugin_query$$'
yoke_vulkan_la_LIBADD = libkit.la $(VULKAN_LIBS)

# tries a driver in a process of its own; looked for beside the plugin
plugin_PROGRAMS += yoke-probe-vulkan
yoke_probe_vulkan_SOURCES = tools/probe_vulkan.c
yoke_probe_vulkan_CFLAGS = $(AM_CFLAGS) $(CONVERSION) $(VULKAN_CFLAGS)
yoke_probe_vulkan_LDADD = $(VULKAN_LIBS)
endif
