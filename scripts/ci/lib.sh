# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# Sourced by each script of scripts/ci: the root as folder, Debian's packages, and a build folder of the job's own.
set -eu
cd "$(dirname "$0")/../.."
# shellcheck source=scripts/packages.sh
. scripts/packages.sh

ci_help() { # ci_help "$@": the comment at the script's head
    case "${1-}" in
    '') ;;
    --help | -h)
        sed -n '3,/^[^#]/s/^# \{0,1\}//p' "scripts/ci/$(basename "$0")"
        exit 0
        ;;
    *)
        echo "$(basename "$0"): unknown argument $1 (--help)" >&2
        exit 2
        ;;
    esac
}

ci_configure() { # ci_configure DIR ARGUMENT..: makes DIR and configures there
    [ -x configure ] && [ configure -nt configure.ac ] || ./autogen.sh >/dev/null 2>&1
    source=$PWD
    mkdir -p "$1"
    (cd "$1" && shift && "$source/configure" -q --enable-silent-rules --enable-werror "$@")
}

ci_jobs() {
    nproc 2>/dev/null || echo 2
}
