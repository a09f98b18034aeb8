// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "capture/observe.h"

namespace whylate::capture {

std::vector<Result<stack::TrafficWindow>> observe(
    const std::vector<stack::ObserveRequest>& requests) {
  return {requests.size(),
          Error{ExitCode::kUnsupported, "built without live capture: traffic cannot be counted"}};
}

}  // namespace whylate::capture
