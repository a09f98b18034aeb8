# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Sourced by the scripts beside it: the Debian packages the project needs, and their installation.
#
# An entry `command@package` is satisfied by the command, whoever provides it.
# No package here may start a service when it is installed: list the one with the programs instead
# (redis-tools, not redis-server).

# shellcheck disable=SC2034 # the lists are for whoever sources this file
{
	build_packages=(
		g++ cmake ninja-build pkg-config
		clang-14 llvm-14 bpftool libbpf-dev libxdp-dev liburing-dev libelf-dev
		libcli11-dev libfmt-dev nlohmann-json3-dev zlib1g-dev libmnl-dev
	)
	test_packages=(
		libgtest-dev libgmock-dev
		iproute2 procps util-linux stress-ng tcpdump ethtool
		dpdk-testpmd@dpdk-dev dnsmasq@dnsmasq-base redis-check-rdb@redis-tools
		python3 jq java@default-jre-headless libhdrhistogram-java
	)
	demo_packages=(iproute2 procps util-linux stress-ng python3 tcpdump ethtool)
	bench_packages=(bpftrace tcpdump linux-perf)
	vm_packages=(qemu-system-x86 busybox-static cpio kmod xz-utils zstd iproute2 jq)
	lint_packages=(clang-format-14 clang-tidy-14 shellcheck)
}

die() {
	echo "$0: $*" >&2
	exit 1
}

can_be_root() {
	[[ $EUID -eq 0 ]] || command -v sudo >/dev/null
}

# as_root COMMAND...: runs it as root; never asks for a password in CI.
as_root() {
	if [[ $EUID -eq 0 ]]; then
		"$@"
	else
		sudo ${CI:+-n} "$@"
	fi
}

# missing_packages ENTRY...: prints the packages that have to be installed, one a line.
missing_packages() {
	local entry command package
	for entry in "$@"; do
		command=${entry%@*} package=${entry#*@}
		if [[ $entry == *@* ]] && command -v "$command" >/dev/null; then
			continue
		fi
		if [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) != installed ]]; then
			echo "$package"
		fi
	done
}

# install_packages ENTRY...: installs what is missing; touches nothing when everything is there.
install_packages() {
	local missing
	mapfile -t missing < <(missing_packages "$@" | sort -u)
	[[ ${#missing[@]} -gt 0 ]] || return 0
	command -v apt-get >/dev/null || die "not a Debian system; needed: ${missing[*]}"
	can_be_root || die "these packages are missing and neither root nor sudo is at hand: ${missing[*]}"
	echo "Installing: ${missing[*]}" >&2
	# An unreachable source that has nothing to do with us is no reason to stop: the install decides.
	as_root apt-get -qq -o DPkg::Lock::Timeout=300 update >&2 </dev/null || true
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 \
		-o Dpkg::Use-Pty=0 install --no-install-recommends "${missing[@]}" >&2 </dev/null ||
		die "apt could not install: ${missing[*]}"
}

# give_back PATH: what root has written in somebody else's tree becomes theirs.
give_back() {
	local owner
	owner=$(stat -c %u:%g .)
	[[ ! -e $1 || $owner == 0:0 ]] || as_root chown -R "$owner" "$1"
}
