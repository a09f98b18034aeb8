# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# cmake -DBPFTOOL=… -DOBJECT=… -DNAME=… -DOUTPUT=… -P gen_skeleton.cmake
# The header appears under its final name only when it is whole: an interrupted build must not leave
# half a skeleton that looks newer than its object.
execute_process(
  COMMAND ${BPFTOOL} gen skeleton ${OBJECT} name ${NAME}
  OUTPUT_FILE ${OUTPUT}.tmp
  ERROR_VARIABLE errors
  RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  file(REMOVE ${OUTPUT}.tmp)
  message(FATAL_ERROR "bpftool gen skeleton ${OBJECT} failed (${status}): ${errors}")
endif()
file(RENAME ${OUTPUT}.tmp ${OUTPUT})
