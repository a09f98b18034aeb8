// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/reply_batch.h"

#include <netinet/udp.h>

#include <cerrno>
#include <cstring>

#include "echo/server.h"

namespace whylate::echo {
namespace {

// The kernel takes 64 segments and one datagram's worth of bytes (UDP_MAX_SEGMENTS of Linux 5 and
// 6.1; later ones take more).
constexpr std::size_t kMaxSegments = 64;
constexpr std::size_t kMaxGsoBytes = 65'000;
constexpr std::size_t kMaxKept = 1'024;  // UIO_MAXIOV: what one sendmmsg() takes

}  // namespace

BatchReplier::BatchReplier(Server& server)
    : Replier(server), gso_(server.options().send == SendWay::kGso) {}

void BatchReplier::send(const ReplyTo& to, std::span<const std::uint8_t> reply) {
  if (kept_.size() == kMaxKept) flush();
  Kept kept{to, {}, bytes_.size(), reply.size()};
  std::memcpy(&kept.peer, to.peer, std::min<std::size_t>(to.peer_length, sizeof kept.peer));
  kept_.push_back(std::move(kept));
  bytes_.insert(bytes_.end(), reply.begin(), reply.end());
}

bool BatchReplier::joins_run(std::size_t first, std::size_t next) const {
  if (!gso_ || next - first >= kMaxSegments) return false;
  const Kept& a = kept_[first];
  const Kept& b = kept_[next];
  return a.size > 0 && a.size == b.size && a.to.fd == b.to.fd &&
         b.from + b.size - a.from <= kMaxGsoBytes && a.to.peer_length == b.to.peer_length &&
         std::memcmp(&a.peer, &b.peer, a.to.peer_length) == 0;
}

void BatchReplier::send_all() {
  struct Control {
    alignas(cmsghdr) char bytes[CMSG_SPACE(sizeof(std::uint16_t))];
  };
  std::vector<mmsghdr> messages(kept_.size());
  std::vector<iovec> vectors(kept_.size());
  std::vector<Control> controls(kept_.size());
  std::vector<std::size_t> ends;  // of each message's run
  for (std::size_t first = 0; first < kept_.size();) {
    std::size_t end = first + 1;
    while (end < kept_.size() && joins_run(first, end)) ++end;
    const std::size_t i = ends.size();
    Kept& kept = kept_[first];
    vectors[i] = {bytes_.data() + kept.from, kept.size * (end - first)};
    msghdr& header = messages[i].msg_hdr;
    header = {};
    header.msg_name = &kept.peer;
    header.msg_namelen = kept.to.peer_length;
    header.msg_iov = &vectors[i];
    header.msg_iovlen = 1;
    if (end - first > 1) {
      header.msg_control = controls[i].bytes;
      header.msg_controllen = sizeof controls[i].bytes;
      cmsghdr* control = CMSG_FIRSTHDR(&header);
      control->cmsg_level = SOL_UDP;
      control->cmsg_type = UDP_SEGMENT;
      control->cmsg_len = CMSG_LEN(sizeof(std::uint16_t));
      const auto segment = static_cast<std::uint16_t>(kept.size);
      std::memcpy(CMSG_DATA(control), &segment, sizeof segment);
    }
    ends.push_back(end);
    first = end;
  }
  const int fd = kept_.front().to.fd;
  for (std::size_t next = 0; next < ends.size();) {
    const int sent = ::sendmmsg(fd, messages.data() + next,
                                static_cast<unsigned>(ends.size() - next), MSG_NOSIGNAL);
    if (sent < 0 && errno == EAGAIN && wait_writable(fd)) continue;
    // An error is that of the first message: leave it out, the others may go.
    const std::size_t done = sent < 0 ? 1 : static_cast<std::size_t>(sent);
    for (std::size_t i = next; i < next + done; ++i) {
      for (std::size_t k = i == 0 ? 0 : ends[i - 1]; k < ends[i]; ++k) kept_[k].sent = sent > 0;
    }
    next += done;
  }
}

void BatchReplier::flush() {
  if (kept_.empty()) return;
  send_all();
  for (const Kept& kept : kept_) server_.finish(*kept.to.worker, kept.sent);
  kept_.clear();
  bytes_.clear();
}

}  // namespace whylate::echo
