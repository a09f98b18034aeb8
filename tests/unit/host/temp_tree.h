// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace whylate::test {

/// A directory that stands in for "/" and disappears with the object.
class TempTree {
 public:
  TempTree() {
    std::string pattern = (std::filesystem::temp_directory_path() / "wl_tree_XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    root_ = pattern;
  }
  ~TempTree() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  TempTree(const TempTree&) = delete;
  TempTree& operator=(const TempTree&) = delete;

  const std::string& root() const { return root_; }

  /// Writes a file; `path` begins with "/".
  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path full = root_ + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full, std::ios::binary) << text;
  }

 private:
  std::string root_;
};

/// /proc/PID/stat as the kernel writes it, with the fields that the readers use.
inline std::string stat_line(int pid, const std::string& comm, char state, unsigned long flags,
                             unsigned long start_ticks) {
  return std::to_string(pid) + " (" + comm + ") " + state + " 1 1 1 0 -1 " + std::to_string(flags) +
         " 0 0 0 0 0 0 0 0 20 0 1 0 " + std::to_string(start_ticks) +
         " 1000 10 18446744073709551615\n";
}

/// A process with one thread.
inline void add_process(const TempTree& tree, int pid, const std::string& comm, char state = 'S',
                        unsigned long flags = 0x400000, const std::string& cpus = "0-1") {
  const std::string base = "/proc/" + std::to_string(pid);
  const std::string id = std::to_string(pid);
  const std::string status = "Name:\t" + comm + "\nTgid:\t" + id + "\nPid:\t" + id + "\nNSpid:\t" +
                             id + "\nCpus_allowed:\t3\nCpus_allowed_list:\t" + cpus + "\n";
  tree.write(base + "/stat", stat_line(pid, comm, state, flags, 12345));
  tree.write(base + "/status", status);
  tree.write(base + "/task/" + id + "/status", status);
}

}  // namespace whylate::test
