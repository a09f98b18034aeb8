// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace whylate::host {

// Every reader in host/ takes a root directory that is put before absolute paths, so that a tree of
// files can stand in for a machine. "" is the real one.

/// The whole file. Error: one line with the path and the reason (kRuntimeError).
Result<std::string> read_file(const std::string& path);

/// The file without white space at its ends, or nothing when it cannot be read.
std::optional<std::string> read_trimmed(const std::string& path);

/// A file that holds one decimal number, or nothing.
std::optional<std::uint64_t> read_u64(const std::string& path);

/// True when the path can be looked up.
bool exists(const std::string& path);

/// Names in a directory without "." and "..", sorted; empty when it cannot be read.
std::vector<std::string> list_directory(const std::string& path);

/// The text without white space at its ends.
std::string_view trim(std::string_view text);

/// Words between blanks and tabs.
std::vector<std::string_view> split_words(std::string_view text);

/// Lines without their ends. A last line without end counts; an empty text has none.
std::vector<std::string_view> split_lines(std::string_view text);

/// A decimal number that fills the whole text, or nothing.
std::optional<std::uint64_t> parse_u64(std::string_view text);

}  // namespace whylate::host
