// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/heap.h"

#include <malloc.h>

namespace whylate {
namespace {

// As much as mallopt() takes for the first of the two.
constexpr int kKeepBytes = 32 << 20;
// glibc's own values (mallopt(3))
constexpr int kUsualBytes = 128 << 10;

}  // namespace

KeptHeap::KeptHeap() {
  mallopt(M_MMAP_THRESHOLD, kKeepBytes);
  mallopt(M_TRIM_THRESHOLD, kKeepBytes);
}

KeptHeap::~KeptHeap() {
  mallopt(M_MMAP_THRESHOLD, kUsualBytes);
  mallopt(M_TRIM_THRESHOLD, kUsualBytes);
  malloc_trim(0);
}

}  // namespace whylate
