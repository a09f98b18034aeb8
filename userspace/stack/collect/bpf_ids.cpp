// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "stack/collect/bpf_ids.h"

#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace whylate::stack::collect {
namespace {

constexpr std::uint32_t kMostMaps = 256;
constexpr int kMostLinks = 100'000;

long bpf(int command, bpf_attr& attribute) {
  return ::syscall(SYS_bpf, command, &attribute, sizeof(attribute));
}

int fd_by_id(int command, std::uint32_t id) {
  bpf_attr attribute = {};
  attribute.prog_id = id;  // a union: the same place for links
  return static_cast<int>(bpf(command, attribute));
}

template <typename Info>
bool describe(int fd, Info& info) {
  bpf_attr attribute = {};
  attribute.info.bpf_fd = static_cast<std::uint32_t>(fd);
  attribute.info.info_len = sizeof(info);
  attribute.info.info = reinterpret_cast<std::uintptr_t>(&info);
  return bpf(BPF_OBJ_GET_INFO_BY_FD, attribute) == 0;
}

BpfProgram own_facts(std::uint32_t id) {
  BpfProgram program;
  const int fd = fd_by_id(BPF_PROG_GET_FD_BY_ID, id);
  if (fd < 0) {
    program.error = errno;
    return program;
  }
  std::vector<std::uint32_t> maps(kMostMaps);
  bpf_prog_info info = {};
  info.nr_map_ids = kMostMaps;
  info.map_ids = reinterpret_cast<std::uintptr_t>(maps.data());
  if (describe(fd, info)) {
    program.name = std::string(info.name, ::strnlen(info.name, sizeof(info.name)));
    maps.resize(std::min(info.nr_map_ids, kMostMaps));
    program.map_ids = std::move(maps);
  } else {
    program.error = errno;
  }
  ::close(fd);
  return program;
}

// Programs attached to functions of `target`, as libxdp's dispatcher has them.
std::vector<std::uint32_t> replacements(std::uint32_t target) {
  std::vector<std::uint32_t> programs;
  std::uint32_t id = 0;
  for (int i = 0; i < kMostLinks; ++i) {
    bpf_attr attribute = {};
    attribute.start_id = id;
    if (bpf(BPF_LINK_GET_NEXT_ID, attribute) != 0) break;
    id = attribute.next_id;
    const int fd = fd_by_id(BPF_LINK_GET_FD_BY_ID, id);
    if (fd < 0) continue;
    bpf_link_info info = {};
    if (describe(fd, info) && info.type == BPF_LINK_TYPE_TRACING &&
        info.tracing.target_obj_id == target) {
      programs.push_back(info.prog_id);
    }
    ::close(fd);
  }
  return programs;
}

}  // namespace

BpfProgram describe_program(std::uint32_t id) {
  BpfProgram program = own_facts(id);
  if (program.error != 0) return program;
  for (const std::uint32_t replacement : replacements(id)) {
    const BpfProgram other = own_facts(replacement);
    program.map_ids.insert(program.map_ids.end(), other.map_ids.begin(), other.map_ids.end());
  }
  std::sort(program.map_ids.begin(), program.map_ids.end());
  program.map_ids.erase(std::unique(program.map_ids.begin(), program.map_ids.end()),
                        program.map_ids.end());
  return program;
}

}  // namespace whylate::stack::collect
