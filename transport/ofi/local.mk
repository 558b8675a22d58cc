# SPDX-License-Identifier: Apache-2.0
# A shared object for jobs, with what it needs of core. Its unit test takes in the same files.
OFI_SOURCES = transport/ofi/ofi_frame.c transport/ofi/ofi_frame.h transport/ofi/ofi_internal.h transport/ofi/ofi_message.c \
	transport/ofi/ofi_message.h transport/ofi/ofi.c transport/ofi/ofi.h transport/ofi/ofi_open.c transport/ofi/ofi_open.h \
	transport/ofi/provider.c transport/ofi/provider.h
EXTRA_DIST += $(OFI_SOURCES) transport/ofi/ofi_plugin.c
if WITH_OFI
plugin_LTLIBRARIES += transport_ofi.la
transport_ofi_la_SOURCES = $(OFI_SOURCES) transport/ofi/ofi_plugin.c $(TRANSPORT_FRAMES) $(TRANSPORT_CORE)
transport_ofi_la_CFLAGS = $(AM_CFLAGS) $(CONVERSION) $(OFI_CFLAGS)
transport_ofi_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -no-undefined -export-symbols-regex \
	'^yk_transport_query$$'
transport_ofi_la_LIBADD = $(SODIUM_LIBS) $(OFI_LIBS)
endif
