#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Layers and training curves on an OpenCL device, curves on a CPU rank and an OpenCL rank together.
. "$YOKE_SOURCE/tests/golden/lib.sh"
need_data golden
need_opencl
# under a sanitizer the driver's preprocessor takes minutes for each list: tests/cts/opencl.sh and golden/cpu.sh try the layers' code there,
# the last list that of curves
instrumented || ok "layers on opencl:0" "$yoke" test --golden "$data/golden" --only layers/ --devices opencl:0
instrumented || ok "curves on opencl:0" "$yoke" test --golden "$data/golden" --only curves/ --devices opencl:0
need_cores 2
ok "curves on cpu:0 and opencl:0@1" "$yoke" test --golden "$data/golden" --only curves/ --devices "cpu:0! opencl:0@1!"
plan
