// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Takes the place of features.cpp in a build without live capture.
#include "capture/features.h"

namespace whylate::capture {
namespace {

Error not_built() {
  return Error{ExitCode::kUnsupported, "this build has no live capture (WHYLATE_BPF=OFF)"};
}

}  // namespace

Result<Features> read_features(const std::string&) { return not_built(); }
Status probe_bpf() { return not_built(); }

}  // namespace whylate::capture
