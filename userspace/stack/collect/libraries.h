// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <string_view>
#include <vector>

#include "stack/collect/context.h"
#include "stack/collect/elf_file.h"
#include "stack/collect/maps.h"
#include "stack/evidence.h"

namespace whylate::stack::collect {

/// Which of the mapped files carry the name or the marks of a network stack. The file itself is
/// read through map_files (any mount namespace, deleted files), else through the target's root.
void collect_libraries(const Context& context, const std::vector<MappedCode>& code,
                       Evidence& evidence);

/// Judges one file; empty when it has nothing to do with a network stack. `elf` is nullptr when it
/// could not be read. Exposed for tests.
std::vector<Library> judge_library(const std::string& path, const ElfFacts* elf);

}  // namespace whylate::stack::collect
