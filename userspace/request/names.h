// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/stage_names.h"
#include "record.h"

namespace whylate {

/// The names used in text and JSON; those of stages are in base/stage_names.h. An unknown value
/// reads "unknown".
std::string_view origin_name(std::uint8_t origin);
std::string_view softirq_mode_name(std::uint8_t mode);
std::string_view occupant_kind_name(std::uint8_t kind);
std::string_view policy_name(std::uint8_t policy);
std::string_view proto_name(std::uint8_t proto);
std::string_view hold_name(std::uint8_t hold);  ///< enum wl_tx_hold
std::string_view stop_name(std::uint8_t kind);  ///< enum wl_stop_kind
std::string_view lost_name(wl_lost lost);
std::string_view unmatched_name(wl_unmatched reason);

/// What a loss means for the reader of a report, in a few words.
std::string_view lost_text(wl_lost lost);
std::string_view unmatched_text(wl_unmatched reason);

/// The names of the set bits of wl_request::quality, lowest bit first.
std::vector<std::string> quality_names(std::uint32_t quality);

}  // namespace whylate
