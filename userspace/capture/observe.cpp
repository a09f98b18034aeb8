// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "capture/observe.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/signals.h"
#include "capture/adopt.h"
#include "capture/features.h"
#include "capture/privileges.h"
#include "capture/stack_window.h"
#include "stack_window.skel.h"

namespace whylate::capture {
namespace {

constexpr std::uint64_t kSliceNs = 50'000'000;

struct SkeletonDeleter {
  void operator()(stack_window_bpf* skeleton) const { stack_window_bpf::destroy(skeleton); }
};
using Skeleton = std::unique_ptr<stack_window_bpf, SkeletonDeleter>;

/// A hook, what it takes, and what is unknown without it.
struct Hook {
  bpf_program* program;
  const char* tracepoint;
  int arguments;
  const char* unknown;
};

std::vector<Hook> hooks_of(stack_window_bpf* skeleton) {
  auto& programs = skeleton->progs;
  return {
      {programs.window_sock_recv_length, "sock_recv_length", 3, "bytes read from sockets"},
      {programs.window_sock_send_length, "sock_send_length", 3, "bytes written to sockets"},
      {programs.window_tcp_destroy_sock, "tcp_destroy_sock", 1, "last segments of connections"},
      {programs.window_sk_data_ready, "sk_data_ready", 1, "datagrams delivered to sockets"},
      {programs.window_netif_receive_skb, "netif_receive_skb", 1, "packets at the receive tap"},
      {programs.window_net_dev_start_xmit, "net_dev_start_xmit", 2, "packets at the transmit tap"},
      {programs.window_xdp_redirect, "xdp_redirect", 7, "redirects of XDP programs"},
      {programs.window_xdp_redirect_err, "xdp_redirect_err", 7, "redirects that failed"},
      {programs.window_xdp_exception, "xdp_exception", 3, "exceptions of XDP programs"},
  };
}

int no_messages(libbpf_print_level, const char*, va_list) { return 0; }

/// libbpf prints while programs are refused; the caller gets one line instead.
class QuietLibbpf {
 public:
  QuietLibbpf() : before_(libbpf_set_print(no_messages)) {}
  ~QuietLibbpf() { libbpf_set_print(before_); }
  QuietLibbpf(const QuietLibbpf&) = delete;
  QuietLibbpf& operator=(const QuietLibbpf&) = delete;

 private:
  libbpf_print_fn_t before_;
};

Error unsupported(const char* what, int error) {
  return Error{
      ExitCode::kUnsupported,
      fmt::format("cannot {} the programs of the traffic window: {}", what, std::strerror(error))};
}

/// One process that is watched.
struct Watch {
  stack::ObserveRequest request;
  Skeleton skeleton;
  std::vector<stack::Unreadable> not_counted;
  WindowReading before;
  std::uint64_t begin_ns = 0;
};

Result<Watch> load(const stack::ObserveRequest& request, const Features& features) {
  Watch watch;
  watch.request = request;
  watch.skeleton.reset(stack_window_bpf::open());
  stack_window_bpf* skeleton = watch.skeleton.get();
  if (skeleton == nullptr) return unsupported("open", errno);
  skeleton->rodata->cfg_netns = static_cast<std::uint32_t>(request.net_namespace);
  skeleton->rodata->cfg_named_inodes = !request.inodes.empty();
  for (const Hook& hook : hooks_of(skeleton)) {
    if (features.args(hook.tracepoint) == hook.arguments) continue;
    bpf_program__set_autoload(hook.program, false);
    watch.not_counted.push_back({hook.tracepoint,
                                 features.has(hook.tracepoint)
                                     ? "this kernel's tracepoint has other arguments"
                                     : "not in this kernel",
                                 hook.unknown});
  }
  bpf_program__set_autoattach(skeleton->progs.window_read_sockets, false);
  const int loaded = stack_window_bpf::load(skeleton);
  if (loaded != 0) return unsupported("load", -loaded);
  const std::uint8_t one = 1;
  for (const std::uint64_t inode : request.inodes) {
    bpf_map_update_elem(bpf_map__fd(skeleton->maps.window_inodes), &inode, &one, BPF_ANY);
  }
  return watch;
}

/// Every entry of a hash map. Entries are only ever added, so none is missed by walking the keys.
template <typename Key, typename Value, typename Use>
void for_each_entry(const bpf_map* map, const Use& use) {
  const int fd = bpf_map__fd(map);
  Key key{};
  Key next{};
  const Key* at = nullptr;
  while (bpf_map_get_next_key(fd, at, &next) == 0) {
    key = next;
    at = &key;
    Value value{};
    if (bpf_map_lookup_elem(fd, &key, &value) == 0) use(key, value);
  }
}

void read_maps(const stack_window_bpf* skeleton, WindowReading& reading) {
  for_each_entry<std::uint64_t, wl_window_socket>(
      skeleton->maps.window_sockets,
      [&](std::uint64_t inode, const wl_window_socket& value) { reading.sockets[inode] = value; });
  for_each_entry<std::uint32_t, wl_window_device>(
      skeleton->maps.window_devices,
      [&](std::uint32_t index, const wl_window_device& value) { reading.devices[index] = value; });
  for_each_entry<wl_window_redirect_key, wl_window_redirect>(
      skeleton->maps.window_redirects,
      [&](const wl_window_redirect_key& key, const wl_window_redirect& value) {
        reading.redirects[{key.ifindex, key.map_id, key.map_type, key.index}] = value;
      });
}

/// Packets sent, from the target's /proc/PID/net/dev: that is its namespace's.
std::map<std::string, std::uint64_t> read_device_tx(pid_t pid) {
  constexpr int kTxPackets = 10;  // counted from the first number behind the name
  std::map<std::string, std::uint64_t> sent;
  std::ifstream file(fmt::format("/proc/{}/net/dev", pid));
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t colon = line.find(':');
    const std::size_t name = line.find_first_not_of(' ');
    if (colon == std::string::npos || name >= colon) continue;
    std::istringstream numbers(line.substr(colon + 1));
    std::uint64_t value = 0;
    for (int i = 0; i < kTxPackets; ++i) numbers >> value;
    if (numbers) sent[line.substr(name, colon - name)] = value;
  }
  return sent;
}

Status read_lines(stack_window_bpf* skeleton, pid_t pid, WindowReading& reading) {
  Result<std::vector<std::byte>> bytes = run_iterator(skeleton->progs.window_read_sockets, pid);
  if (!bytes) return bytes.error();
  for (std::size_t at = 0; at + sizeof(wl_window_line) <= bytes->size();
       at += sizeof(wl_window_line)) {
    wl_window_line line;
    std::memcpy(&line, bytes->data() + at, sizeof line);
    reading.lines.push_back(line);
  }
  return Done{};
}

std::uint64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}

/// Short sleeps: a signal that comes just before one must not cost the whole window.
void wait_until(std::uint64_t end_ns) {
  for (std::uint64_t now = monotonic_ns(); now < end_ns && !stop_requested();
       now = monotonic_ns()) {
    const std::uint64_t left = std::min(end_ns - now, kSliceNs);
    const timespec slice{0, static_cast<long>(left)};
    nanosleep(&slice, nullptr);
  }
}

Status begin(Watch& watch) {
  stack_window_bpf* skeleton = watch.skeleton.get();
  const int attached = stack_window_bpf::attach(skeleton);
  if (attached != 0) return unsupported("attach", -attached);
  skeleton->bss->window_adopt = 1;
  if (Status read = read_lines(skeleton, watch.request.pid, watch.before); !read) return read;
  skeleton->bss->window_adopt = 0;
  watch.begin_ns = monotonic_ns();
  read_maps(skeleton, watch.before);
  watch.before.device_tx = read_device_tx(watch.request.pid);
  return Done{};
}

stack::TrafficWindow end(Watch& watch) {
  stack_window_bpf* skeleton = watch.skeleton.get();
  const stack::ObserveRequest& request = watch.request;
  WindowReading after;
  // A target that has ended meanwhile has no sockets to read any more; what was counted stays.
  if (Status read = read_lines(skeleton, request.pid, after); !read) {
    watch.not_counted.push_back(
        {"iter/task_file", read.error().message, "sockets at the window's end"});
  }
  after.device_tx = read_device_tx(request.pid);
  const std::uint64_t end_ns = monotonic_ns();
  read_maps(skeleton, after);
  stack_window_bpf::detach(skeleton);

  const int cpus = libbpf_num_possible_cpus();
  stack::TrafficWindow window =
      window_between(watch.before, after, request.net_namespace,
                     cpus < 1 ? 0 : static_cast<std::uint32_t>(cpus), request.interfaces);
  for (const stack::Unreadable& gap : watch.not_counted) forget_uncounted(window, gap.source);
  window.window_ns = end_ns - watch.begin_ns;
  window.counting = true;
  window.lost = skeleton->bss->window_lost;
  window.not_counted.insert(window.not_counted.end(), watch.not_counted.begin(),
                            watch.not_counted.end());
  return window;
}

}  // namespace

std::vector<Result<stack::TrafficWindow>> observe(
    const std::vector<stack::ObserveRequest>& requests) {
  std::vector<Result<stack::TrafficWindow>> windows;
  if (Status allowed = check_privileges(read_privileges("")); !allowed) {
    windows.assign(requests.size(), allowed.error());
    return windows;
  }
  const QuietLibbpf quiet;
  const Result<Features> features = read_features();
  if (!features) {
    windows.assign(requests.size(), features.error());
    return windows;
  }
  // Loaded first: that takes the longest, and would stagger the windows.
  std::vector<Result<Watch>> watches;
  for (const stack::ObserveRequest& request : requests) watches.push_back(load(request, *features));
  std::uint64_t longest_ns = 0;
  for (std::size_t i = 0; i < watches.size(); ++i) {
    if (!watches[i]) continue;
    if (Status began = begin(*watches[i]); !began) watches[i] = began.error();
    longest_ns = std::max(longest_ns, requests[i].window_ns);
  }
  wait_until(monotonic_ns() + longest_ns);
  for (Result<Watch>& watch : watches) {
    if (watch) {
      windows.push_back(end(*watch));
    } else {
      windows.push_back(watch.error());
    }
  }
  return windows;
}

}  // namespace whylate::capture
