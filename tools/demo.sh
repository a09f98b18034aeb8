#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Installs what is needed, builds, and shows on this machine what delays a responder and how
# whylate explains it: see usage below and README.md. Needs root (calls sudo itself), two CPUs,
# and about a minute after the build.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tools/deps.sh
. tools/deps.sh

usage() {
	cat <<'TEXT'
usage: tools/demo.sh [--count N] [--keep DIRECTORY]
  --count N          requests a phase, one per millisecond (default 10000, at least 100)
  --keep DIRECTORY   keep the traces and the client's files there

Exit codes: 0 done; 2 usage; 3 not possible on this machine; 5 failed; 130 interrupted.
WHYLATE_BUILD_DIR=DIRECTORY uses binaries built before; nothing is installed or built then.
TEXT
}

bad_usage() {
	usage >&2
	exit 2
}

count=10000
keep=
while [[ $# -gt 0 ]]; do
	case $1 in
	-h | --help)
		usage
		exit 0
		;;
	--count)
		# Ten digits would be beyond the two minutes, and beyond the arithmetic sooner or later.
		[[ ${2-} =~ ^[1-9][0-9]{2,8}$ ]] || bad_usage
		count=$2
		shift 2
		;;
	--keep)
		[[ -n ${2-} ]] || bad_usage
		keep=$2
		shift 2
		;;
	*) bad_usage ;;
	esac
done

if [[ -n $keep ]]; then
	mkdir -p -- "$keep"
	keep=$(realpath -- "$keep")
fi

if [[ -n ${WHYLATE_BUILD_DIR-} ]]; then
	build=$(realpath -- "$WHYLATE_BUILD_DIR")
else
	can_be_root || die "the demo needs root or sudo"
	tools/build.sh
	install_packages "${demo_packages[@]}"
	build=$PWD/build
fi

rig=(tools/demo/rig.sh "$build" "$count" "$keep")
if [[ $EUID -eq 0 ]]; then
	exec "${rig[@]}"
fi
exec sudo ${CI:+-n} "${rig[@]}"
