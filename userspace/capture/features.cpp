// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "capture/features.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include "capture/privileges.h"

namespace whylate::capture {
namespace {

constexpr std::string_view kTracepointPrefix = "btf_trace_";

struct FreeBtf {
  void operator()(btf* b) const { btf__free(b); }
};

Error no_btf(const std::string& path, int error) {
  // The format names neither libbpf nor its error numbers: those mean nothing to the reader.
  return Error{ExitCode::kUnsupported,
               "cannot read the kernel's type information in " + path + " (" +
                   (error == EINVAL ? "not BTF" : std::strerror(error)) +
                   "): a kernel built with CONFIG_DEBUG_INFO_BTF is needed"};
}

// typedef void (*btf_trace_NAME)(void *, …): the arguments after the first, or -1.
int count_args(const btf* b, const btf_type* type) {
  const btf_type* const pointer = btf__type_by_id(b, type->type);
  if (pointer == nullptr || !btf_is_ptr(pointer)) return -1;
  const btf_type* const function = btf__type_by_id(b, pointer->type);
  if (function == nullptr || !btf_is_func_proto(function)) return -1;
  return static_cast<int>(btf_vlen(function)) - 1;
}

// Looks through anonymous members too: fields move into unions between kernels.
bool has_member(const btf* b, const btf_type* type, std::string_view name, int depth = 0) {
  const btf_member* const members = btf_members(type);
  for (int i = 0; i < btf_vlen(type); ++i) {
    const char* const member = btf__name_by_offset(b, members[i].name_off);
    if (member != nullptr && name == member) return true;
    if (depth < 4 && (member == nullptr || *member == '\0')) {
      const btf_type* const inner = btf__type_by_id(b, members[i].type);
      if (inner != nullptr && btf_is_composite(inner) && has_member(b, inner, name, depth + 1)) {
        return true;
      }
    }
  }
  return false;
}

void look_at_struct(const btf* b, const btf_type* type, std::string_view name, Features& out) {
  // A name can occur more than once: a field of any of them counts.
  if (name == "cfs_rq") {
    out.cfs_throttled_self_time |= has_member(b, type, "throttled_clock_self_time");
  } else if (name == "task_struct") {
    out.task_throttled |= has_member(b, type, "throttled");
    out.task_state |= has_member(b, type, "__state");
  } else if (name == "udp_sock") {
    out.udp_reader_queue |= has_member(b, type, "reader_queue");
    out.udp_prod_queue |= has_member(b, type, "udp_prod_queue");
  }
}

int quiet(libbpf_print_level, const char*, va_list) { return 0; }

}  // namespace

Result<Features> read_features(const std::string& btf_path) {
  const libbpf_print_fn_t before = libbpf_set_print(quiet);
  errno = 0;
  btf* raw = btf__parse(btf_path.c_str(), nullptr);
  const long error = libbpf_get_error(raw);
  libbpf_set_print(before);
  if (raw == nullptr || error != 0) {
    const int code = error != 0 ? static_cast<int>(-error) : errno;
    return no_btf(btf_path, code >= 4000 || code <= 0 ? EINVAL : code);
  }
  const std::unique_ptr<btf, FreeBtf> owner(raw);

  Features features;
  // Up to 6.12 an SRCU of that name guarded the tracepoints of idle CPUs only; 6.13 dropped it and
  // brought tracepoint_ext.
  bool srcu = false, ext = false, preempt_disable = false;
  const __u32 count = btf__type_cnt(raw);
  for (__u32 id = 1; id < count; ++id) {
    const btf_type* const type = btf__type_by_id(raw, id);
    const char* const text = btf__name_by_offset(raw, type->name_off);
    if (text == nullptr || *text == '\0') continue;
    const std::string_view name = text;
    if (btf_is_typedef(type)) {
      if (name.substr(0, kTracepointPrefix.size()) != kTracepointPrefix) continue;
      const int args = count_args(raw, type);
      if (args >= 0)
        features.tracepoints[std::string(name.substr(kTracepointPrefix.size()))] = args;
    } else if (btf_is_struct(type)) {
      look_at_struct(raw, type, name, features);
      ext |= name == "tracepoint_ext";
    } else if (btf_is_func(type)) {
      features.iter_task_file |= name == "bpf_iter_task_file";
      preempt_disable |= name == "bpf_preempt_disable";
    } else if (btf_is_var(type)) {
      srcu |= name == "tracepoint_srcu_srcu_data";
    }
  }
  features.tracepoints_preemptible = srcu && ext && preempt_disable;
  if (features.tracepoints.empty()) {
    return Error{ExitCode::kUnsupported, btf_path +
                                             " describes no tracepoints: it is not the type "
                                             "information of a kernel"};
  }
  return features;
}

Status probe_bpf() {
  // r0 = 0; exit
  const bpf_insn program[] = {
      {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .src_reg = 0, .off = 0, .imm = 0},
      {.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0},
  };
  const libbpf_print_fn_t before = libbpf_set_print(quiet);
  const int fd = bpf_prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, "wl_probe", "GPL", program,
                               sizeof(program) / sizeof(program[0]), nullptr);
  const int error = fd < 0 ? -fd : 0;
  libbpf_set_print(before);
  if (fd >= 0) {
    ::close(fd);
    return Done{};
  }
  if (error == ENOSYS) {
    return Error{ExitCode::kUnsupported,
                 "this kernel has no bpf() system call (CONFIG_BPF_SYSCALL)"};
  }
  const Privileges privileges = read_privileges("");
  const Status check = check_privileges(privileges);
  if (!check) return check;
  std::string line =
      std::string("the kernel refuses to load a BPF program: ") + std::strerror(error);
  if (error == EPERM || error == EACCES) {
    line += privileges.seccomp_mode == 2
                ? "; system calls of this process are filtered (seccomp): allow bpf()"
                : "; the capabilities are there, so a security module forbids it";
  }
  return Error{ExitCode::kUnsupported, line};
}

}  // namespace whylate::capture
