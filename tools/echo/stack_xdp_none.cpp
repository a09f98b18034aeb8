// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "echo/stack.h"

namespace whylate::echo {

Status serve_af_xdp(Server&) {
  return Error{ExitCode::kUnsupported, "--stack af-xdp: built without BPF"};
}

}  // namespace whylate::echo
