#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Formats the C and C++ sources, or checks them.
# usage: tools/format.sh check|fix [FILE...]      default: every tracked source
#   check   lists what is formatted differently
# Both also list sources without the licence line and what shellcheck has to say.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tools/deps.sh
. tools/deps.sh

mode=${1-}
[[ $mode == check || $mode == fix ]] || die "usage: tools/format.sh check|fix [FILE...]"
shift
# Always this version: another one formats differently.
command -v clang-format-14 >/dev/null || die "clang-format-14 is missing"

if [[ $# -gt 0 ]]; then
	files=("$@")
else
	mapfile -t files < <(git ls-files)
fi
sources=() scripts=() licensed=()
for file in "${files[@]}"; do
	[[ -f $file && $file != vmlinux/* ]] || continue
	case $file in
	*.c | *.h | *.cpp) sources+=("$file") licensed+=("$file") ;;
	*.sh | .ci/run) scripts+=("$file") licensed+=("$file") ;;
	*.py | *.js | *.cmake | *CMakeLists.txt) licensed+=("$file") ;;
	esac
done

status=0
if [[ ${#sources[@]} -gt 0 ]]; then
	if [[ $mode == fix ]]; then
		clang-format-14 -i "${sources[@]}"
	else
		for file in "${sources[@]}"; do
			clang-format-14 "$file" | cmp -s - "$file" || {
				echo "$file: needs tools/format.sh fix"
				status=1
			}
		done
	fi
fi
for file in "${licensed[@]}"; do
	head -3 "$file" | grep -q 'SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause' || {
		echo "$file: no SPDX line"
		status=1
	}
done
if [[ ${#scripts[@]} -gt 0 ]] && command -v shellcheck >/dev/null; then
	shellcheck -x "${scripts[@]}" || status=1
fi
exit "$status"
