# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/text/bpe.c core/text/strmap.c core/text/strmap.h \
	core/text/tokenizer.c core/text/tokenizer.h core/text/ids.c core/text/ids.h core/text/text_internal.h \
	core/text/source.h core/text/tokenizer_added.c core/text/tokenizer_config.c core/text/tokenizer_json.c \
	core/text/tokenizer_load.c core/text/tokenizer_named.c core/text/tokenizer_save.c core/text/wordpiece.c
