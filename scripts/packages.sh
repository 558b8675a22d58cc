# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2034
# Sourced by ./quickstart and ./check: installs Debian packages that are missing, as root or through sudo.
PACKAGES_BUILD="gcc make autoconf automake libtool autoconf-archive pkg-config libc6-dev libhwloc-dev libjansson-dev \
libutf8proc-dev libpcre2-dev zlib1g-dev libsodium-dev libyaml-dev libfabric-dev ocl-icd-opencl-dev libvulkan-dev"
PACKAGES_OPENCL="pocl-opencl-icd"
# where they cannot be installed, the tests of these launchers are skipped by name
PACKAGES_LAUNCHERS="openmpi-bin mpich slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge iproute2 iptables \
procps"
# what builds of tests find or leave out
PACKAGES_CHECK="check python3 libpmix-dev"
PACKAGES_TEST="python3-pip binutils valgrind g++ clang dataset-fashion-mnist mesa-opencl-icd mesa-vulkan-drivers \
vulkan-validationlayers spirv-tools locales"

missing_packages() {
    for p in "$@"; do
        dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || printf '%s ' "$p"
    done
}

need_packages() {
    missing=$(missing_packages "$@")
    [ -n "$missing" ] || return 0
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "these are missing and this is no Debian: $missing" >&2
        return 1
    fi
    as_root=
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null 2>&1 || { echo "install these as root: apt-get install $missing" >&2; return 1; }
        as_root=sudo
    fi
    echo "installing: $missing"
    $as_root apt-get update -qq >/dev/null
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
}
