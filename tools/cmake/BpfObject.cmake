# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# wl_add_bpf(NAME SOURCE [INCLUDES DIR...])
#
# Compiles SOURCE for the BPF machine and wraps it in a skeleton:
#   NAME.bpf.o     the object for this machine's architecture, debug information stripped, BTF kept
#   NAME.skel.h    its skeleton (C: struct NAME_bpf); written only when complete
#   NAME_skel      INTERFACE library to link: the skeleton's directory (SYSTEM) and libbpf
#   NAME_bpf_ARCH  compiles SOURCE for every other architecture in vmlinux/, as a check
# INCLUDES are searched after bpf/.

find_package(PkgConfig REQUIRED)
pkg_check_modules(LIBBPF REQUIRED IMPORTED_TARGET libbpf>=1.1)
find_program(WHYLATE_BPF_CLANG NAMES clang-14 clang REQUIRED)
find_program(WHYLATE_BPF_STRIP NAMES llvm-strip-14 llvm-strip REQUIRED)
# Debian keeps bpftool in a directory that is not in an ordinary user's PATH.
find_program(WHYLATE_BPFTOOL NAMES bpftool PATHS /usr/sbin /sbin /usr/local/sbin REQUIRED)

set(WHYLATE_BPF_ARCHES x86 arm64)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
  set(WHYLATE_BPF_ARCH x86)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(WHYLATE_BPF_ARCH arm64)
else()
  message(FATAL_ERROR "Live capture is not supported on ${CMAKE_SYSTEM_PROCESSOR}; "
                      "configure with -DWHYLATE_BPF=OFF to build the rest.")
endif()

# Internal: a rule that compiles `source` for `arch` into `object`.
function(wl_compile_bpf arch source object includes)
  list(TRANSFORM includes PREPEND -I)
  cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE shown)
  add_custom_command(
    OUTPUT ${object}
    # No prefix map: clang would no longer find the source lines it keeps for the verifier's log.
    COMMAND ${WHYLATE_BPF_CLANG} -g -O2 -target bpf -mcpu=v3 -D__TARGET_ARCH_${arch} -Wall -Wextra
            -Wno-unused-parameter -Werror
            -isystem ${CMAKE_SOURCE_DIR}/vmlinux/${arch} ${includes}
            -MD -MF ${object}.d -MT ${object} -c ${source} -o ${object}
    DEPENDS ${source}
    DEPFILE ${object}.d
    COMMENT "BPF (${arch}) ${shown}"
    COMMAND_EXPAND_LISTS VERBATIM)
endfunction()

function(wl_add_bpf name source)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "INCLUDES")
  cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
  set(includes ${CMAKE_SOURCE_DIR}/bpf ${arg_INCLUDES})
  # Its own directory: nothing but the skeleton may be found through the SYSTEM include.
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${name}_skel)
  file(MAKE_DIRECTORY ${out})

  set(full ${out}/${name}.full.bpf.o)
  set(object ${out}/${name}.bpf.o)
  set(skeleton ${out}/${name}.skel.h)
  wl_compile_bpf(${WHYLATE_BPF_ARCH} ${source} ${full} "${includes}")
  add_custom_command(
    OUTPUT ${object}
    COMMAND ${WHYLATE_BPF_STRIP} -g -o ${object} ${full}
    DEPENDS ${full}
    VERBATIM)
  add_custom_command(
    OUTPUT ${skeleton}
    COMMAND ${CMAKE_COMMAND} -DBPFTOOL=${WHYLATE_BPFTOOL} -DOBJECT=${object} -DNAME=${name}_bpf
            -DOUTPUT=${skeleton} -P ${CMAKE_SOURCE_DIR}/tools/cmake/gen_skeleton.cmake
    DEPENDS ${object} ${CMAKE_SOURCE_DIR}/tools/cmake/gen_skeleton.cmake
    COMMENT "Skeleton ${name}.skel.h"
    VERBATIM)
  add_custom_target(${name}_skeleton ALL DEPENDS ${skeleton})

  add_library(${name}_skel INTERFACE)
  add_dependencies(${name}_skel ${name}_skeleton)
  target_include_directories(${name}_skel SYSTEM INTERFACE ${out})
  target_link_libraries(${name}_skel INTERFACE PkgConfig::LIBBPF)

  foreach(arch IN LISTS WHYLATE_BPF_ARCHES)
    if(arch STREQUAL WHYLATE_BPF_ARCH)
      continue()
    elseif(NOT EXISTS ${CMAKE_SOURCE_DIR}/vmlinux/${arch}/vmlinux.h)
      message(STATUS "${name}: not checked for ${arch}, vmlinux/${arch}/vmlinux.h is missing")
      continue()
    endif()
    wl_compile_bpf(${arch} ${source} ${out}/${name}.${arch}.bpf.o "${includes}")
    add_custom_target(${name}_bpf_${arch} ALL DEPENDS ${out}/${name}.${arch}.bpf.o)
  endforeach()
endfunction()
