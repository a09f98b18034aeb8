# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# wl_syscall_names(TARGET FUNCTION HEADER DEFINE...): adds a source to the target that defines FUNCTION(), which lists the
# system calls of a kernel header; none where this machine does not have it. DEFINE is what that machine asks of the header.
function(wl_syscall_names target function header)
  set(text "#include \"diagnose/syscall_tables.h\"\n")
  foreach(define IN LISTS ARGN)
    string(APPEND text "#define ${define}\n")
  endforeach()
  string(APPEND text "#if __has_include(<${header}>)\n#include <${header}>\n#endif\n")
  # With nothing else included: macros are all that is wanted, and the compiler lists them.
  string(REPLACE "#include \"diagnose/syscall_tables.h\"\n" "" probe "${text}")
  set(base ${CMAKE_CURRENT_BINARY_DIR}/${function})
  file(WRITE ${base}.probe.c "${probe}")
  execute_process(
    COMMAND ${CMAKE_C_COMPILER} -E -dM ${base}.probe.c
    OUTPUT_VARIABLE macros COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "#define __NR_[a-z0-9_]+ " names "${macros}")
  list(TRANSFORM names REPLACE "#define __NR_([a-z0-9_]+) " "\\1")
  list(FILTER names EXCLUDE REGEX "^(syscalls|arch_specific_syscall)$")
  list(SORT names)
  string(APPEND text "namespace whylate {\nstd::span<const SyscallRow> ${function}() {\n")
  if(names)
    string(APPEND text "  static constexpr SyscallRow kRows[] = {\n")
    foreach(name IN LISTS names)
      string(APPEND text "      {__NR_${name}, \"${name}\"},\n")
    endforeach()
    string(APPEND text "  };\n  return kRows;\n")
  else()
    string(APPEND text "  return {};\n")
  endif()
  string(APPEND text "}\n}  // namespace whylate\n")
  file(CONFIGURE OUTPUT ${base}.cpp CONTENT "${text}" @ONLY)
  target_sources(${target} PRIVATE ${base}.cpp)
endfunction()
