// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

namespace whylate {

/// While one of these lives, freed memory stays with the process; its end gives it back to the
/// kernel. For phases that allocate and free the same large buffers again and again: the first
/// touch of each page costs more than what is done with it. Not nested.
class KeptHeap {
 public:
  KeptHeap();
  ~KeptHeap();
  KeptHeap(const KeptHeap&) = delete;
  KeptHeap& operator=(const KeptHeap&) = delete;
};

}  // namespace whylate
