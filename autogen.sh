#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes ./configure from configure.ac. Needs autoconf, automake, libtool, pkg-config.
set -e
cd "$(dirname "$0")"
mkdir -p build-aux/m4
autoreconf --install --force
# Autoconf's probes remove a core dump of theirs, "core"; here that is a folder of the sources, and rm would say so for each probe.
sed 's/rm -f core /rm -f /' configure >configure.tmp
cat configure.tmp >configure
rm -f configure.tmp
