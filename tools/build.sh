#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Builds build/whylate and build/whylate-echo. Installs what is missing through apt first, as root
# or by calling sudo; the build itself runs as the caller.
# usage: tools/build.sh [--tests]      --tests  build the tests, too
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tools/deps.sh
. tools/deps.sh

packages=("${build_packages[@]}")
tests=OFF
case ${1-} in
'') ;;
--tests) tests=ON packages+=("${test_packages[@]}") ;;
*) die "usage: tools/build.sh [--tests]" ;;
esac

install_packages "${packages[@]}"
[[ ! -e build || -w build ]] || die "build/ belongs to somebody else; remove it first"

werror=OFF
[[ ${CI-} != true ]] || werror=ON
status=0
{
	cmake --preset release -DWHYLATE_TESTS=$tests -DWHYLATE_WERROR=$werror &&
		cmake --build build --parallel "${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}"
} </dev/null || status=$?
[[ $EUID -ne 0 ]] || give_back build
exit "$status"
