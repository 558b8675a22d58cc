#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compiles the units that are built into the CUDA plugin, and writes the table of them (fatbin.h).
#   fatbins.sh NVCC "75 80 .." FOLDER FATBIN-UNITS OUT.inc [FILE]   FILE: units of this file of the kit alone (nn)
# Each image has code for these chips, and PTX of the last, which the driver finishes for chips that are newer.
set -eu
nvcc=$1 chips=$2 folder=$3 units=$4 out=$5 only=${6-}
mkdir -p "$folder"
"$units" "$folder" | grep " ${only:-.*}" >"$folder/list"
chip=
set --
for chip in $chips; do
    set -- "$@" -gencode "arch=compute_$chip,code=sm_$chip"
done
set -- "$@" -gencode "arch=compute_$chip,code=compute_$chip"
cut -d ' ' -f 1 "$folder/list" |
    xargs -P "$(nproc)" -I KEY "$nvcc" -fatbin -Xfatbin -compress-all -w "$@" -o "$folder/KEY.fatbin" "$folder/KEY.cu"
# the driver reads words of 8 bytes
cd "$folder"
{
    echo "/* made by fatbins.sh */"
    while read -r key name; do
        echo "extern const char fatbin_$key[] __attribute__((visibility(\"hidden\"))); /* $name */"
        printf '__asm__(".pushsection .rodata\\n.balign 16\\nfatbin_%s:\\n.incbin \\"%s\\"\\n.popsection\\n");\n' "$key" "$PWD/$key.fatbin"
    done <list
    echo "static const cuda_fatbin fatbins[] = {"
    while read -r key name; do
        echo "    {0x${key}u, fatbin_$key},"
    done <list
    echo "    {0, NULL}};"
} >list.inc
cd "$OLDPWD"
mv "$folder/list.inc" "$out"
