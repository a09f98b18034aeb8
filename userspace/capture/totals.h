// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "capture/session.h"

struct whylate_bpf;

namespace whylate::capture {

/// Merges the per-CPU counters, aggregates and blame rows of a loaded skeleton.
Result<Totals> read_totals(const whylate_bpf& skel, double call_ns);

}  // namespace whylate::capture
