// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "host/kernel.h"

#include <sys/utsname.h>

#include <algorithm>

#include "host/file.h"

namespace whylate::host {

KernelInfo read_kernel(const std::string& root) {
  KernelInfo info;
  utsname name{};
  const bool named = ::uname(&name) == 0;
  info.machine = named ? name.machine : "unknown";
  info.release = read_trimmed(root + "/proc/sys/kernel/osrelease").value_or("");
  if (info.release.empty()) info.release = named && root.empty() ? name.release : "unknown";
  if (const Result<std::string> cpuinfo = read_file(root + "/proc/cpuinfo")) {
    for (const std::string_view line : split_lines(*cpuinfo)) {
      if (line.substr(0, 5) != "flags") continue;
      const std::vector<std::string_view> words = split_words(line);
      info.virtualised = std::find(words.begin(), words.end(), "hypervisor") != words.end();
      break;
    }
  }
  info.clocksource =
      read_trimmed(root + "/sys/devices/system/clocksource/clocksource0/current_clocksource")
          .value_or("");
  return info;
}

bool clocksource_is_good(const std::string& clocksource) {
  return clocksource == "tsc" || clocksource == "kvm-clock" || clocksource == "arch_sys_counter" ||
         clocksource == "hyperv_clocksource_tsc_page" || clocksource == "xen";
}

}  // namespace whylate::host
