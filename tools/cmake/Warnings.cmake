# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Warnings and sanitizers for everything built for user space. Generated code (skeletons) and
# libraries are found through SYSTEM directories and therefore stay quiet.
#
# Not in the set: -Wold-style-cast and -Wconversion, because the headers in bpf/ are C as well as
# C++; -Wmissing-field-initializers, because g++ also reports fields that a designated initialiser
# leaves to their default on purpose; -Wrestrict in g++ 12, which is wrong about "text" + std::string
# (GCC bug 105651).
add_compile_options(
  -Wall -Wextra -Wshadow -Wundef -Wformat=2 -Wpointer-arith -Wcast-qual -Wvla -Wdouble-promotion
  -Wno-missing-field-initializers
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
  $<$<COMPILE_LANGUAGE:CXX>:-Woverloaded-virtual>
  $<$<COMPILE_LANGUAGE:CXX>:-Wextra-semi>
  $<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
  $<$<CXX_COMPILER_ID:GNU>:-Wduplicated-cond>
  $<$<CXX_COMPILER_ID:GNU>:-Wlogical-op>)

if(WHYLATE_WERROR)
  add_compile_options(-Werror)
endif()

if(WHYLATE_SANITIZE)
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
else()
  # -U first: some compilers come with a default level, and redefining it is a warning.
  add_compile_options(-fstack-protector-strong
                      $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE>
                      $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=2>)
endif()
