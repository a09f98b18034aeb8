#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Installs what the tests need, builds, and runs them.
# usage: tools/test.sh [short|unit|cli|live|scenarios|vm|vm-all]      default: all but vm-all
#   short      unit, cli, live and vm: what CI runs; a kernel that cannot be fetched is left out, and
#              a line on stderr says so
#   unit       quick, needs no root
#   cli        starts the built programs
#   live       real traffic in network namespaces of its own; needs root (calls sudo itself)
#   scenarios  causes made on purpose, each with a not guilty partner (docs/scenarios.md); needs root
#   vm         kernels 6.1 and 6.12, emulated by QEMU; fetches them from Debian the first time
#   vm-all     those, 5.10 and the newest that Debian has
# A skipped test fails the run wherever root is at hand: skipped is not passed.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tools/deps.sh
. tools/deps.sh

label=${1-}
[[ $# -le 1 && $label =~ ^(|short|unit|cli|live|scenarios|vm|vm-all)$ ]] ||
	die "usage: tools/test.sh [short|unit|cli|live|scenarios|vm|vm-all]"
[[ $label =~ ^(unit|cli|vm|vm-all)$ ]] || can_be_root ||
	die "the live tests need root or sudo; \"tools/test.sh unit\" needs neither"

# The cases of label vm that `short` must do without.
left_out=()

# leave_out KERNEL REASON
leave_out() {
	left_out+=("vm_${1//./\\.}")
	echo "$0: KERNEL $1 IS NOT TESTED in this run: $2" >&2
}

# fetch_kernels: what label vm needs beyond the build. No network is no reason not to run the rest.
fetch_kernels() {
	local kernel reason=
	if [[ $(uname -m) != x86_64 ]]; then
		reason="only x86-64 guests are known"
	elif ! (install_packages "${vm_packages[@]}"); then
		reason="the packages for virtual machines cannot be installed (see above)"
	fi
	for kernel in 6.12 6.1; do
		if [[ -n $reason ]]; then
			leave_out "$kernel" "$reason"
		elif ! WHYLATE_VM=build/vm timeout 300 tools/run_in_vm.sh --fetch "$kernel" >&2; then
			leave_out "$kernel" "it cannot be fetched from Debian (see above)"
		fi
	done
}

if [[ $label == short ]]; then
	mkdir -p build
	fetch_kernels
elif [[ $label =~ ^(|vm|vm-all)$ && $(uname -m) == x86_64 ]]; then
	install_packages "${vm_packages[@]}"
fi
tools/build.sh --tests

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# run_ctest [as_root] ARGUMENT...: one run; its summary is the last thing printed. One test at a
# time, because the live ones measure and the others would be in their way.
run_ctest() {
	local status=0 runner=()
	if [[ $1 == as_root ]]; then
		runner=(as_root)
		shift
	fi
	"${runner[@]}" ctest --test-dir build --output-on-failure --no-tests=error --no-label-summary \
		"$@" </dev/null 2>&1 | tee "$log" || status=$?
	[[ ${#runner[@]} -eq 0 && $EUID -ne 0 ]] || give_back build
	if [[ $status -eq 0 ]] && can_be_root && grep -Eq '\*\*\*(Skipped|Not Run)' "$log"; then
		echo "$0: failed: tests were skipped (listed above) although root is at hand" >&2
		status=1
	fi
	return "$status"
}

if [[ $label =~ ^(unit|cli|vm)$ ]]; then
	run_ctest -L "^$label\$"
elif [[ $label == vm-all ]]; then
	run_ctest -L '^vm(-all)?$'
elif [[ $label =~ ^(live|scenarios)$ ]]; then
	run_ctest as_root -L "^$label\$"
else
	plain='unit|cli|vm' with_root=live
	[[ $label == short ]] || with_root+='|scenarios'
	exclude=()
	[[ ${#left_out[@]} -eq 0 ]] || exclude=(-E "^($(IFS='|' && echo "${left_out[*]}"))\$")
	if [[ $EUID -eq 0 ]]; then
		run_ctest as_root -L "^($plain|$with_root)\$" "${exclude[@]}"
	else
		run_ctest -L "^($plain)\$" "${exclude[@]}"
		run_ctest as_root -L "^($with_root)\$"
	fi
fi
