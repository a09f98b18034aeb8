// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/escape.h"

namespace whylate::cli {

Output Output::to_stdout() { return Output(STDOUT_FILENO, "standard output", false); }

Result<Output> Output::to_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) {
    return Error{ExitCode::kRuntimeError,
                 fmt::format("cannot write {}: {}", escape(path), std::strerror(errno))};
  }
  return Output(fd, escape(path), true);
}

Output::Output(Output&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      name_(std::move(other.name_)),
      is_file_(other.is_file_),
      reader_gone_(other.reader_gone_),
      whole_lines_bytes_(other.whole_lines_bytes_),
      pending_(std::move(other.pending_)) {}

Output::~Output() {
  if (is_file_ && fd_ >= 0) ::close(fd_);
}

Status Output::flush() {
  std::size_t written = 0;
  while (written < pending_.size() && !reader_gone_) {
    const ssize_t n = ::write(fd_, pending_.data() + written, pending_.size() - written);
    if (n > 0) {
      written += static_cast<std::size_t>(n);
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      // A pipe somebody else made non-blocking.
      pollfd poll_fd = {fd_, POLLOUT, 0};
      ::poll(&poll_fd, 1, 100);
      continue;
    }
    if (n < 0 && errno == EPIPE) {
      reader_gone_ = true;
      break;
    }
    const int reason = n < 0 ? errno : EIO;
    const std::size_t line_end =
        pending_.rfind('\n', written == 0 ? std::string::npos : written - 1);
    const bool any_line = written > 0 && line_end != std::string::npos && line_end < written;
    const std::uint64_t keep = whole_lines_bytes_ + (any_line ? line_end + 1 : 0);
    // Only a regular file has a tail to cut; a device such as /dev/full refuses, which is fine.
    [[maybe_unused]] const int cut = is_file_ ? ::ftruncate(fd_, static_cast<off_t>(keep)) : 0;
    whole_lines_bytes_ = keep;
    pending_.clear();
    return Error{ExitCode::kRuntimeError,
                 fmt::format("cannot write {}: {}", name_, std::strerror(reason))};
  }
  whole_lines_bytes_ += written;
  pending_.clear();
  return Done{};
}

void Output::look_for_reader() {
  if (is_file_) return;
  pollfd poll_fd = {fd_, 0, 0};
  if (::poll(&poll_fd, 1, 0) == 1 && (poll_fd.revents & POLLERR) != 0) reader_gone_ = true;
}

Status Output::close() {
  Status flushed = flush();
  if (!is_file_ || fd_ < 0) return flushed;
  // Network file systems report a full disk only here.
  const int failed = ::close(std::exchange(fd_, -1));
  if (!flushed.ok() || failed == 0) return flushed;
  return Error{ExitCode::kRuntimeError,
               fmt::format("cannot write {}: {}", name_, std::strerror(errno))};
}

}  // namespace whylate::cli
