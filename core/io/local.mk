# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/io/checkpoint.c core/io/checkpoint.h core/io/file.c core/io/file.h core/io/folder.c core/io/folder.h \
	core/io/foreign.c core/io/foreign.h core/io/foreign_forms.c core/io/foreign_forms.h core/io/json.c core/io/json.h \
	core/io/json_parse.c core/io/labels.c core/io/labels.h core/io/range_file.c core/io/range_file.h core/io/safetensors.c \
	core/io/safetensors.h core/io/safetensors_write.c \
	core/io/stamp.c core/io/stamp.h core/io/text.c core/io/text.h core/io/tier.c core/io/tier.h \
	core/io/tracker.c core/io/tracker.h core/io/tree.c core/io/tree.h core/io/utf8.c core/io/utf8.h core/io/yaml.c
