// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "capture/adopt.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace whylate::capture {

Result<std::vector<std::byte>> run_iterator(const bpf_program* program, std::optional<pid_t> pid) {
  bpf_iter_link_info info{};
  LIBBPF_OPTS(bpf_iter_attach_opts, opts);
  if (pid) {
    info.task.pid = static_cast<__u32>(*pid);
    opts.link_info = &info;
    opts.link_info_len = sizeof info;
  }
  bpf_link* link = bpf_program__attach_iter(program, &opts);
  if (link == nullptr) {
    return Error{ExitCode::kRuntimeError,
                 fmt::format("cannot run the {} iterator: {}", bpf_program__name(program),
                             std::strerror(errno))};
  }
  const int fd = bpf_iter_create(bpf_link__fd(link));
  const int create_errno = errno;
  std::vector<std::byte> out;
  int read_errno = fd < 0 ? create_errno : 0;
  if (fd >= 0) {
    std::array<std::byte, 8192> buffer;
    for (;;) {
      const ssize_t n = read(fd, buffer.data(), buffer.size());
      if (n > 0) {
        out.insert(out.end(), buffer.begin(), buffer.begin() + n);
      } else if (n == 0) {
        break;
      } else if (errno != EINTR && errno != EAGAIN) {
        read_errno = errno;
        break;
      }
    }
    close(fd);
  }
  bpf_link__destroy(link);
  if (read_errno != 0) {
    return Error{ExitCode::kRuntimeError,
                 fmt::format("the {} iterator failed: {}", bpf_program__name(program),
                             std::strerror(read_errno))};
  }
  return out;
}

std::vector<SocketInfo> parse_socket_lines(const std::vector<std::byte>& bytes) {
  std::vector<SocketInfo> sockets;
  for (std::size_t at = 0; at + sizeof(wl_socket_line) <= bytes.size();
       at += sizeof(wl_socket_line)) {
    wl_socket_line line;
    std::memcpy(&line, bytes.data() + at, sizeof line);
    SocketInfo s;
    s.tgid = static_cast<pid_t>(line.tgid);
    s.fd = static_cast<int>(line.fd);
    s.inode = line.inode;
    s.family = line.family;
    s.proto = line.proto;
    s.tcp_state = line.state;
    s.local_port = line.lport;
    s.remote_port = line.rport;
    std::memcpy(s.local_addr, line.laddr, sizeof s.local_addr);
    std::memcpy(s.remote_addr, line.raddr, sizeof s.remote_addr);
    s.netns = line.netns;
    s.sk_cookie = line.cookie;
    s.comm.assign(line.comm, strnlen(line.comm, sizeof line.comm));
    sockets.push_back(std::move(s));
  }
  return sockets;
}

}  // namespace whylate::capture
