// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "host/interrupts.h"

#include <optional>

#include "host/file.h"

namespace whylate::host {
namespace {

// Takes the first word off `rest`; empty at the end.
std::string_view take_word(std::string_view& rest) {
  constexpr std::string_view kBlank = " \t";
  const std::size_t first = rest.find_first_not_of(kBlank);
  if (first == std::string_view::npos) {
    rest = {};
    return {};
  }
  rest.remove_prefix(first);
  const std::string_view word = rest.substr(0, rest.find_first_of(kBlank));
  rest.remove_prefix(word.size());
  return word;
}

bool is_trigger(std::string_view word) {
  for (const std::string_view name : {"Level", "Edge", "None"}) {
    if (word == name) return true;
    // "Level-fasteoi": a flow handler name is glued to it.
    if (word.size() > name.size() && word.substr(0, name.size()) == name &&
        word[name.size()] == '-') {
      return true;
    }
  }
  return false;
}

// "17", "17-edge", "-edge": the number inside the controller, with the flow handler's name.
bool is_hardware_number(std::string_view word) {
  const std::size_t digits = word.find_first_not_of("0123456789");
  if (digits == std::string_view::npos) return !word.empty();
  return word[digits] == '-';
}

std::vector<std::string> split_actions(std::string_view text) {
  std::vector<std::string> actions;
  std::string_view rest = trim(text);
  while (!rest.empty()) {
    const std::size_t comma = rest.find(", ");
    const std::string_view name = trim(rest.substr(0, comma));
    if (!name.empty()) actions.emplace_back(name);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 2);
  }
  return actions;
}

}  // namespace

InterruptNames parse_interrupts(std::string_view text) {
  InterruptNames names;
  const std::vector<std::string_view> lines = split_lines(text);
  if (lines.empty()) return names;
  // The head line has one word per column; offline CPUs have none.
  const std::size_t columns = split_words(lines[0]).size();
  for (std::size_t i = 1; i < lines.size(); ++i) {
    std::string_view rest = lines[i];
    const std::string_view label = take_word(rest);
    if (label.size() < 2 || label.back() != ':') continue;
    const std::optional<std::uint64_t> irq = parse_u64(label.substr(0, label.size() - 1));
    if (!irq || *irq > 0xfffffffeu) continue;
    bool complete = true;
    for (std::size_t column = 0; column < columns && complete; ++column) {
      complete = parse_u64(take_word(rest)).has_value();
    }
    if (!complete) continue;
    take_word(rest);  // the interrupt controller
    std::string_view before = rest;
    if (!is_hardware_number(take_word(rest))) rest = before;
    before = rest;
    if (!is_trigger(take_word(rest))) rest = before;
    names[static_cast<std::uint32_t>(*irq)] = split_actions(rest);
  }
  return names;
}

Result<InterruptNames> read_interrupts(const std::string& root) {
  const Result<std::string> text = read_file(root + "/proc/interrupts");
  if (!text) return text.error();
  return parse_interrupts(*text);
}

std::string interrupt_name(const InterruptNames& names, std::uint32_t irq) {
  const auto it = names.find(irq);
  std::string text;
  if (it == names.end()) return text;
  for (const std::string& action : it->second) {
    if (!text.empty()) text += ", ";
    text += action;
  }
  return text;
}

}  // namespace whylate::host
