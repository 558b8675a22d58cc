# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/read/blob.c core/read/blob.h core/read/cifar.c core/read/cifar.h core/read/csv.c core/read/csv.h \
	core/read/idx.c core/read/idx.h core/read/jsonl.c core/read/jsonl.h core/read/paths.c core/read/paths.h core/read/rows.c \
	core/read/row_layouts.c core/read/row_layouts.h core/read/rows.h \
	core/read/shards.c core/read/shards.h core/read/tokens.c core/read/tokens.h
