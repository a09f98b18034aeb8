// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/reply_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "echo/server.h"

namespace whylate::echo {
namespace {

// What is on its way refers to the file's pages, so a place in it is written again only after this
// many bytes: more than the buffers of both ends hold.
constexpr off_t kFileBytes = 32 << 20;
constexpr std::size_t kPipeBytes = 65'536;

/// What to do after a call that moves bytes: its count, 0 to try again, or -1.
ssize_t moved(ssize_t result, int fd) {
  if (result > 0) return result;
  if (result < 0 && (errno == EINTR || (errno == EAGAIN && wait_writable(fd)))) return 0;
  return -1;
}

}  // namespace

FileReplier::FileReplier(Server& server)
    : Replier(server), splice_(server.options().send == SendWay::kSplice) {
  if (splice_)
    open_pipe();
  else
    file_ = Fd(::memfd_create("replies", MFD_CLOEXEC));
}

void FileReplier::open_pipe() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return;  // the replies then fail, and are counted so
  pipe_out_ = Fd(ends[0]);
  pipe_in_ = Fd(ends[1]);
}

bool FileReplier::send_file(int fd, std::span<const std::uint8_t> reply) {
  if (next_ > 0 && next_ + static_cast<off_t>(reply.size()) > kFileBytes) next_ = 0;
  if (::pwrite(file_.get(), reply.data(), reply.size(), next_) !=
      static_cast<ssize_t>(reply.size()))
    return false;
  const off_t end = next_ + static_cast<off_t>(reply.size());
  off_t at = next_;
  next_ = end;
  while (at < end) {
    // sendfile() moves `at` on by itself.
    if (moved(::sendfile(fd, file_.get(), &at, static_cast<std::size_t>(end - at)), fd) < 0)
      return false;
  }
  return true;
}

bool FileReplier::send_spliced(int fd, std::span<const std::uint8_t> reply) {
  while (!reply.empty()) {
    const auto part = reply.first(std::min(reply.size(), kPipeBytes));
    if (::write(pipe_in_.get(), part.data(), part.size()) != static_cast<ssize_t>(part.size()))
      return false;
    for (std::size_t left = part.size(); left > 0;) {
      const ssize_t put =
          moved(::splice(pipe_out_.get(), nullptr, fd, nullptr, left, SPLICE_F_MOVE), fd);
      if (put < 0) return false;
      left -= static_cast<std::size_t>(put);
    }
    reply = reply.subspan(part.size());
  }
  return true;
}

void FileReplier::send(const ReplyTo& to, std::span<const std::uint8_t> reply) {
  const bool sent = splice_ ? send_spliced(to.fd, reply) : send_file(to.fd, reply);
  // What the peer did not take must not go to the next one.
  if (!sent && splice_) open_pipe();
  server_.finish(*to.worker, sent);
}

}  // namespace whylate::echo
