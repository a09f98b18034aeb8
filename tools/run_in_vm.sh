#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Runs the tests in tests/vm/ on another kernel: a Debian one in QEMU, with two virtio network
# cards on one hub and a network namespace behind each, so that packets come by real interrupts.
# Correctness only: the guest is emulated, its times mean nothing.
# usage: tools/run_in_vm.sh KERNEL [TEST...]
#        tools/run_in_vm.sh --fetch KERNEL
#   KERNEL  beginning of a version, such as 6.12 or 6.1, or `newest` (the newest that Debian has)
#   TEST    names in tests/vm without .sh; default: all
#   --fetch only gets what is needed: packages and the kernel, unpacked in build/vm
# environment: WHYLATE_BUILD  build directory (default: build, made by tools/build.sh)
#              WHYLATE_VM     where kernels and logs are kept (default: build/vm)
# Exit status: 0 when every test passed (or all was fetched), 1 when one failed, 2 when nothing could
# be run.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tools/deps.sh
. tools/deps.sh

die() {
	echo "$0: $*" >&2
	exit 2
}

fetch_only=false
if [[ ${1-} == --fetch && $# -eq 2 ]]; then
	fetch_only=true
	shift
fi
[[ $# -ge 1 && $1 != -* ]] ||
	die "usage: tools/run_in_vm.sh KERNEL [TEST...], or tools/run_in_vm.sh --fetch KERNEL"
[[ $(uname -m) == x86_64 ]] || die "only x86-64 guests are known here"
kernel=$1
shift
[[ $kernel == newest || $kernel =~ ^[0-9]+\.[0-9]+[0-9.]*$ ]] || die "not a kernel version: $kernel"

tests=("$@")
if [[ ${#tests[@]} -eq 0 ]]; then
	for file in tests/vm/*.sh; do
		name=${file##*/}
		tests+=("${name%.sh}")
	done
fi
for name in "${tests[@]}"; do
	[[ -f tests/vm/$name.sh ]] || die "no such test: $name"
done

build=${WHYLATE_BUILD:-build}
vm=${WHYLATE_VM:-build/vm}
[[ $fetch_only == true || (-x $build/whylate && -x $build/whylate-echo) ]] ||
	die "run tools/build.sh first"
(install_packages "${vm_packages[@]}") || exit 2
mkdir -p "$vm"
vm=$(realpath "$vm")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# newest_package APT_OPTION... -- PATTERN: name of the newest matching package, or nothing.
newest_package() {
	local options=()
	while [[ $1 != -- ]]; do
		options+=("$1")
		shift
	done
	apt-cache "${options[@]}" search --names-only "$2" | cut -d' ' -f1 | sort -V | tail -n 1
}

# Kernels of other Debian releases: a private apt root, the system's sources stay as they are.
# Sets `apt`, the options to use it.
private_apt() {
	local root=$vm/apt suite mirror keyring=/usr/share/keyrings/debian-archive-keyring.gpg
	# shellcheck disable=SC2016 # not an expansion of ours
	mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 2>/dev/null |
		grep -m 1 -E '/debian/?$' || true)
	[[ -n $mirror ]] || die "no Debian mirror among apt's sources"
	mkdir -p "$root"/{lists,cache/archives}/partial
	: >"$root/status"
	for suite in trixie-backports bullseye; do
		echo "deb [signed-by=$keyring] $mirror $suite main"
	done >"$root/sources.list"
	apt=(-o "Dir::Etc::SourceList=$root/sources.list" -o Dir::Etc::SourceParts=/dev/null
		-o "Dir::State::Lists=$root/lists" -o "Dir::Cache=$root/cache"
		-o "Dir::State::status=$root/status" -o APT::Sandbox::User=root)
	apt-get "${apt[@]}" -qq update >&2 </dev/null || die "the package lists cannot be read"
}

# find_packages: sets `packages` (the image, and the modules where they are apart) and `apt`.
find_packages() {
	local version=${kernel//./\\.}
	apt=(-o APT::Sandbox::User=root)
	packages=()
	if [[ $kernel != newest ]]; then
		local image="^linux-image-${version}[.+-].*-cloud-amd64\$" found
		found=$(newest_package "${apt[@]}" -- "$image")
		if [[ -z $found ]] && can_be_root; then
			as_root apt-get -qq update >&2 </dev/null || true
			found=$(newest_package "${apt[@]}" -- "$image")
		fi
		if [[ -n $found ]]; then
			packages=("$found")
			return
		fi
	else
		version='[0-9]+\.[0-9]+'
	fi
	private_apt
	local image binary
	image=$(newest_package "${apt[@]}" -- "^linux-image-${version}[.+-].*-cloud-amd64(-unsigned)?\$")
	# Later kernels come in two parts, and their linux-image package is empty.
	binary=$(newest_package "${apt[@]}" -- "^linux-binary-${version}[.+-].*-cloud-amd64\$")
	if [[ -n $binary && (-z $image || ${binary#linux-binary-} == "${image#linux-image-}" ||
		$kernel == newest) ]]; then
		packages=("$binary" "linux-modules-${binary#linux-binary-}")
	elif [[ -n $image ]]; then
		packages=("$image")
	else
		die "Debian has no kernel $kernel"
	fi
}

download_packages() {
	echo "Fetching ${packages[*]}" >&2
	rm -f "$work"/*.deb
	(cd "$work" && apt-get "${apt[@]}" -qq -o Acquire::Retries=3 download "${packages[@]}" >&2)
}

# fetch_kernel: leaves vmlinuz and modules/ in $home, once.
fetch_kernel() {
	local packages apt package
	home=$vm/kernel/$kernel
	[[ ! -f $home/package ]] || return 0
	find_packages
	# Lists of some days ago name versions that are gone.
	download_packages || {
		if can_be_root; then as_root apt-get -qq update >&2 </dev/null || true; fi
		find_packages
		download_packages || die "cannot download ${packages[*]}"
	}
	for package in "$work"/*.deb; do
		dpkg-deb -x "$package" "$work/root"
		rm "$package"
	done
	rm -rf "$home"
	mkdir -p "$home"
	find "$work/root" -name 'vmlinuz*' -type f -exec cp {} "$home/vmlinuz" \;
	[[ -f $home/vmlinuz ]] || die "no kernel image in ${packages[*]}"
	mkdir "$home/modules"
	for module in virtio_pci virtio_net sch_netem; do
		add_module "$module"
	done
	rm -rf "$work/root"
	echo "${packages[0]}" >"$home/package"
}

# add_module NAME: the module after those it needs; one that is not there is built in.
add_module() {
	local module=$1 file dependency
	[[ ! -f $home/modules/$module.ko ]] || return 0
	file=$(find "$work/root" -name "$module.ko*" | head -n 1)
	[[ -n $file ]] || return 0
	case $file in
	*.xz) xz -dc "$file" >"$home/modules/$module.ko" ;;
	*.zst) zstd -qdc "$file" >"$home/modules/$module.ko" ;;
	*) cp "$file" "$home/modules/" ;;
	esac
	for dependency in $(PATH=$PATH:/sbin:/usr/sbin modinfo -F depends "$home/modules/$module.ko" |
		tr , ' '); do
		add_module "$dependency"
	done
	echo "$module" >>"$home/modules/order"
}

# make_image: everything the guest needs, in one uncompressed archive (unpacking is slow there).
make_image() {
	local root=$work/image program library
	mkdir -p "$root"/{bin,vm,modules}
	cp "$(command -v busybox)" "$root/bin/busybox"
	cp "$home"/modules/* "$root/modules/"
	cp -r tests/vm/guest tests/vm/*.sh "$root/vm/"
	cp tests/vm/guest/init "$root/init"
	chmod +x "$root/init"
	cp "$build/whylate" "$build/whylate-echo" "$(command -v jq)" "$root/bin/"
	# busybox has a tc of its own that knows no netem
	cp "$(PATH=$PATH:/sbin:/usr/sbin command -v tc)" "$root/bin/iproute2-tc"
	cp "$(command -v chrt)" "$root/bin/" # busybox has none
	for program in "$root"/bin/{whylate,whylate-echo,jq,iproute2-tc,chrt}; do
		for library in $(ldd "$program" | grep -o '/[^ ]*'); do
			mkdir -p "$root${library%/*}"
			cp -Lu "$library" "$root$library"
		done
	done
	(cd "$root" && find . | cpio -o -H newc --quiet) >"$work/image.cpio"
}

# boot LOG ARGUMENTS TEST,...: one guest. Translated code is stale in a multi-threaded emulator of
# this age when tracepoints are switched on, hence one thread for all CPUs.
boot() {
	local log=$1 arguments=$2 list=$3
	timeout 900 qemu-system-x86_64 -M q35 -accel tcg,thread=single -cpu max -smp 3 \
		-m 512 -nodefaults -no-user-config -display none -no-reboot -serial stdio \
		-netdev hubport,id=n0,hubid=0 -device virtio-net-pci,netdev=n0,mac=52:54:00:00:00:01 \
		-netdev hubport,id=n1,hubid=0 -device virtio-net-pci,netdev=n1,mac=52:54:00:00:00:02 \
		-kernel "$home/vmlinuz" -initrd "$work/image.cpio" -append \
		"console=ttyS0 panic=-1 loglevel=4 ipv6.disable=1 tsc=reliable $arguments wl_tests=$list" \
		</dev/null 2>&1 | sed -u 's/\r$//' >"$log" || true
}

# report LOG TEST...: a line per test from the guest's log; a test without a verdict has failed.
report() {
	local log=$1 name verdict
	shift
	for name in "$@"; do
		verdict=$(sed -n "s/^=== \([A-Z]*\) $name\( .*\)\?\$/\1/p" "$log" | grep -v RUN | head -n 1)
		case $verdict in
		PASS)
			echo "pass  $kernel  $name"
			passed=$((passed + 1))
			;;
		NA) echo "n/a   $kernel  $name  $(sed -n "s/^=== NA $name //p" "$log")" ;;
		*)
			echo "FAIL  $kernel  $name"
			failed+=("$name")
			if grep -q "^=== RUN $name\$" "$log"; then
				sed -n "/^=== RUN $name\$/,/^=== FAIL $name /p" "$log" | head -n 200 | sed 's/^/    /'
			else
				tail -n 30 "$log" | sed 's/^/    /'
			fi
			;;
		esac
	done
}

fetch_kernel
if [[ $fetch_only == true ]]; then
	[[ $EUID -ne 0 ]] || give_back "$vm"
	exit
fi
make_image

# run_tests TEST...: one guest for all that want the same kernel arguments; sets `failed`.
run_tests() {
	local name arguments names list log
	local -A groups=()
	failed=()
	for name in "$@"; do
		arguments=$(sed -n 's/^# kernel arguments: //p' "tests/vm/$name.sh")
		groups[" $arguments"]+="$name "
	done
	for arguments in "${!groups[@]}"; do
		read -ra names <<<"${groups[$arguments]}"
		number=$((number + 1))
		log=$vm/log/$kernel-$number.log
		list=$(
			IFS=,
			echo "${names[*]}"
		)
		boot "$log" "$arguments" "$list"
		grep '^=== GUEST' "$log" | cut -c5- || true
		report "$log" "${names[@]}"
	done
}

passed=0 number=0 failed=()
mkdir -p "$vm/log"
run_tests "${tests[@]}"
# An emulated machine shares its host: what fails must fail in another guest as well.
again=("${failed[@]}")
if [[ ${#again[@]} -gt 0 ]]; then
	echo "once more: ${again[*]}"
	run_tests "${again[@]}"
fi
[[ $EUID -ne 0 ]] || give_back "$vm"
echo "$kernel: $passed passed, ${#failed[@]} failed, ${#again[@]} run twice; guest logs in $vm/log"
[[ ${#failed[@]} -eq 0 && $passed -gt 0 ]] || exit 1
