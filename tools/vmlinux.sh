#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Regenerates vmlinux/ARCH/vmlinux.h from the kernel packages of Debian 12.
# usage: tools/vmlinux.sh [--check] [x86|arm64]...     (default: both)
#   --check   compare with what is committed instead of writing; exit 1 when it differs
#
# The packages come from the Debian sources that apt on this machine is set up with, through an apt
# state of its own: another architecture's lists never reach the system's. Needs no root.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly series=6.12 # the oldest series with every field that is read without a fallback
readonly release=bookworm

die() {
	echo "tools/vmlinux.sh: $*" >&2
	exit 1
}

# The `deb` lines of the Debian release in the system's apt sources, whatever their format.
# shellcheck disable=SC2016 # $(NAME) is apt's own syntax
debian_sources() {
	local keyring=/usr/share/keyrings/debian-archive-keyring.gpg
	apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
		sort -u | while read -r uri suite component; do
		[[ $suite == "$release"* && $component == main ]] || continue
		echo "deb [signed-by=$keyring] $uri $suite $component"
	done
}

# fetch_kernel DEBIAN_ARCH DIRECTORY: unpacks the newest kernel of the series into DIRECTORY/root
# and prints the package's name and version.
fetch_kernel() {
	local arch=$1 dir=$2 package
	mkdir -p "$dir"/{lists/partial,cache/archives/partial,etc,root}
	touch "$dir/status"
	debian_sources >"$dir/sources.list"
	[[ -s $dir/sources.list ]] || die "apt on this machine has no source for Debian $release"
	local apt=(-qq -o "APT::Architecture=$arch" -o "APT::Architectures=$arch"
		-o "Dir::Etc::SourceList=$dir/sources.list" -o "Dir::Etc::SourceParts=/dev/null"
		-o "Dir::Etc::Preferences=/dev/null" -o "Dir::Etc::PreferencesParts=/dev/null"
		-o "Dir::State::Lists=$dir/lists" -o "Dir::State::status=$dir/status"
		-o "Dir::Cache=$dir/cache" -o "APT::Sandbox::User=" -o "Acquire::Languages=none")
	apt-get "${apt[@]}" update >&2
	# The metapackage names the current kernel: versions come and go, so none is written down here.
	package=$(apt-cache "${apt[@]}" show "linux-image-$series-$arch" |
		sed -n "s/^Depends:.*\(linux-image-$series\.[^ ,]*\).*/\1/p" | sort -V | tail -1)
	[[ $package ]] || die "no linux-image-$series-$arch in Debian $release"
	(cd "$dir" && apt-get "${apt[@]}" download "$package" >&2)
	dpkg-deb -x "$dir"/linux-image-*.deb "$dir/root"
	# shellcheck disable=SC2016 # the names are dpkg's
	dpkg-deb -W --showformat='${Package} ${Version}\n' "$dir"/linux-image-*.deb
}

generate() {
	local arch=$1 out=$2 debian_arch package work=$tmp/$1
	case $arch in
	x86) debian_arch=amd64 ;;
	arm64) debian_arch=arm64 ;;
	*) die "no such architecture: $arch" ;;
	esac
	package=$(fetch_kernel "$debian_arch" "$work")
	tools/extract_btf.py "$(echo "$work"/root/boot/vmlinuz-*)" "$work/btf"
	"$bpftool" btf dump file "$work/btf" format c >"$work/vmlinux.h"
	mkdir -p "$out"
	mv "$work/vmlinux.h" "$out/vmlinux.h"
	cat >"$out/VERSION" <<-EOF
		package: $package
		bpftool: $("$bpftool" version | awk 'NR == 1 { print $NF }')
		btf-sha256: $(sha256sum <"$work/btf" | cut -d' ' -f1)
	EOF
	rm -rf "$work"
	echo "$arch: $package"
}

check=
if [[ ${1-} == --check ]]; then
	check=1
	shift
fi
[[ $# -gt 0 ]] || set -- x86 arm64
bpftool=$(PATH=$PATH:/usr/sbin:/sbin command -v bpftool) || die "bpftool is missing"
for program in apt-get dpkg-deb python3 zstd; do
	command -v "$program" >/dev/null || die "$program is missing"
done
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

status=0
for arch in "$@"; do
	if [[ $check ]]; then
		generate "$arch" "$tmp/check/$arch"
		diff -rq "$tmp/check/$arch" "vmlinux/$arch" || status=1
	else
		generate "$arch" "vmlinux/$arch"
	fi
done
exit "$status"
