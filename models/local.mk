# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += models/bert.c models/config.c models/fit.c models/gpt2.c models/load.c models/mlp.c \
	models/model.c models/model.h models/quantized.c models/registry.c models/resnet.c
