// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/uring.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstring>

#include "echo/clock.h"

namespace whylate::echo {
namespace {

constexpr unsigned kEntries = 256;
constexpr unsigned kBatch = 64;
constexpr unsigned kSlots = 1024;
// After so long without work the SQPOLL thread sleeps until it is woken by a system call.
constexpr unsigned kSqThreadIdleMs = 10;
constexpr std::int64_t kCancelNs = 1'000'000'000;
constexpr std::size_t kBufferRingBytes = UringBuffers::kCount * sizeof(io_uring_buf);

Error unsupported(std::string_view what, int result) {
  return Error{ExitCode::kUnsupported, fmt::format("{}: {}", what, std::strerror(-result))};
}

/// Completions of what needs no attention.
class IgnoredOp final : public UringOp {
 public:
  void complete(int, bool, int) override {}
};

}  // namespace

Result<std::unique_ptr<Uring>> Uring::create(const UringOptions& options) {
  std::unique_ptr<Uring> ring(new Uring);
  io_uring_params params{};
  if (options.defer) params.flags |= IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
  if (options.sqpoll) {
    params.flags |= IORING_SETUP_SQPOLL;
    params.sq_thread_idle = kSqThreadIdleMs;
  }
  const int result = io_uring_queue_init_params(kEntries, &ring->ring_, &params);
  if (result < 0) {
    ring->ring_.ring_fd = -1;
    return unsupported("io_uring", result);
  }
  if (options.async) ring->entry_flags_ = IOSQE_ASYNC;
  ring->ignored_ = std::make_unique<IgnoredOp>();
  ring->direct_ = options.direct;
  if (!options.direct) return ring;
  // Linux 5.19.
  if (const int slots = io_uring_register_files_sparse(&ring->ring_, kSlots); slots < 0)
    return unsupported("io_uring's table of files", slots);
  return ring;
}

Uring::~Uring() {
  if (ring_.ring_fd >= 0) io_uring_queue_exit(&ring_);
}

Status Uring::keep_in_slot(unsigned slot, int fd) {
  const int updated = io_uring_register_files_update(&ring_, slot, &fd, 1);
  if (updated < 0) return unsupported("registering a socket with io_uring", updated);
  return Done{};
}

void Uring::close_slot(unsigned slot) {
  start(*ignored_, [slot](io_uring_sqe* sqe) { io_uring_prep_close_direct(sqe, slot); });
}

io_uring_sqe* Uring::free_entry() {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  while (sqe == nullptr) {
    // With SQPOLL the kernel's thread may still have to take what was submitted.
    io_uring_submit(&ring_);
    sqe = io_uring_get_sqe(&ring_);
  }
  return sqe;
}

void Uring::run() {
  io_uring_submit_and_wait(&ring_, 1);
  io_uring_cqe* entries[kBatch];
  // Copied first: completing one may start others, and the entries go back to the kernel.
  struct Completion {
    UringOp* op;
    int result;
    unsigned flags;
  } completions[kBatch];
  const unsigned count = io_uring_peek_batch_cqe(&ring_, entries, kBatch);
  for (unsigned i = 0; i < count; ++i) {
    completions[i] = {static_cast<UringOp*>(io_uring_cqe_get_data(entries[i])), entries[i]->res,
                      entries[i]->flags};
  }
  io_uring_cq_advance(&ring_, count);
  for (unsigned i = 0; i < count; ++i) {
    const auto& [op, result, flags] = completions[i];
    const bool more = (flags & IORING_CQE_F_MORE) != 0;
    if (!more) --in_flight_;
    const int buffer = (flags & IORING_CQE_F_BUFFER) != 0
                           ? static_cast<int>(flags >> IORING_CQE_BUFFER_SHIFT)
                           : -1;
    op->complete(result, more, buffer);
  }
}

void Uring::cancel_all() {
  IgnoredOp cancelled;
  IgnoredOp passed;
  const std::int64_t until_ns = monotonic_ns() + kCancelNs;
  entry_flags_ = 0;
  start(cancelled, [](io_uring_sqe* sqe) {
    io_uring_prep_cancel64(sqe, 0, IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL);
  });
  // So that run() cannot wait for ever. It completes itself when the time is over.
  __kernel_timespec second{0, kCancelNs - 1};
  start(passed, [&second](io_uring_sqe* sqe) { io_uring_prep_timeout(sqe, &second, 0, 0); });
  while (in_flight_ > 1 && monotonic_ns() < until_ns) run();
  if (in_flight_ == 0) return;
  IgnoredOp removed;
  start(removed, [&passed](io_uring_sqe* sqe) {
    io_uring_prep_timeout_remove(sqe, reinterpret_cast<std::uintptr_t>(&passed), 0);
  });
  while (in_flight_ > 0 && monotonic_ns() < until_ns + kCancelNs) run();
}

Result<std::unique_ptr<UringBuffers>> UringBuffers::create(Uring& ring, std::size_t buffer_bytes) {
  std::unique_ptr<UringBuffers> buffers(new UringBuffers(buffer_bytes));
  void* const memory =
      mmap(nullptr, kBufferRingBytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_PRIVATE, -1, 0);
  if (memory == MAP_FAILED) return unsupported("memory for io_uring", -errno);
  buffers->entries_ = static_cast<io_uring_buf_ring*>(memory);
  io_uring_buf_reg reg{};
  reg.ring_addr = reinterpret_cast<std::uintptr_t>(memory);
  reg.ring_entries = kCount;
  reg.bgid = kGroup;
  if (const int result = io_uring_register_buf_ring(&ring.raw(), &reg, 0); result < 0)
    return unsupported("io_uring buffers", result);
  io_uring_buf_ring_init(buffers->entries_);
  for (unsigned i = 0; i < kCount; ++i) buffers->give_back(static_cast<int>(i));
  return buffers;
}

UringBuffers::~UringBuffers() {
  // The ring, which outlives the buffers' use, was told to take everything back before.
  if (entries_ != nullptr) munmap(entries_, kBufferRingBytes);
}

std::span<std::uint8_t> UringBuffers::at(int buffer) {
  return {bytes_.data() + static_cast<std::size_t>(buffer) * buffer_bytes_, buffer_bytes_};
}

void UringBuffers::give_back(int buffer) {
  const auto bytes = at(buffer);
  io_uring_buf_ring_add(entries_, bytes.data(), static_cast<unsigned>(bytes.size()),
                        static_cast<unsigned short>(buffer), io_uring_buf_ring_mask(kCount), 0);
  io_uring_buf_ring_advance(entries_, 1);
}

}  // namespace whylate::echo
