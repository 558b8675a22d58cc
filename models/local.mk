# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += models/model.c models/model.h models/fit.c models/mlp.c models/resnet.c models/gpt2.c models/bert.c
