# Installs the build into a scratch prefix, moves that elsewhere, and builds and runs the consumer project against it.
# Then configures the consumer with the checkout as a subdirectory, where our tests and tools have to stay out.
#
# usage: cmake -DSOURCE=... -DBUILD=... -DSCRATCH=... -DCASE=...without suffix... -P check.cmake
cmake_minimum_required(VERSION 3.22)

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}: ${status}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

set(consumer "${CMAKE_CURRENT_LIST_DIR}")
file(REMOVE_RECURSE "${SCRATCH}")
file(MAKE_DIRECTORY "${SCRATCH}")

# A package that knows where it was installed would not survive the move.
run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${SCRATCH}/installed")
file(RENAME "${SCRATCH}/installed" "${SCRATCH}/moved prefix")

run("${CMAKE_COMMAND}" -S "${consumer}" -B "${SCRATCH}/build" -G Ninja -DCMAKE_BUILD_TYPE=Release
    "-DCMAKE_PREFIX_PATH=${SCRATCH}/moved prefix")
run("${CMAKE_COMMAND}" --build "${SCRATCH}/build")
run("${SCRATCH}/build/list_tensors" "${CASE}.tensors")

# The case's own expectation says what the names are; all of them are paths of one string.
file(READ "${CASE}.json" expected)
string(JSON count LENGTH "${expected}" tensors)
math(EXPR last "${count} - 1")
set(names "")
foreach(i RANGE ${last})
  string(JSON name GET "${expected}" tensors ${i} path 0)
  string(APPEND names "${name}\n")
endforeach()
if(NOT output STREQUAL names)
  message(FATAL_ERROR "the consumer printed\n${output}and not\n${names}")
endif()

run("${CMAKE_COMMAND}" -S "${consumer}" -B "${SCRATCH}/subdirectory" -G Ninja "-DTZMARK_SOURCE=${SOURCE}")
file(STRINGS "${SCRATCH}/subdirectory/CMakeCache.txt" developer_options REGEX "^TZMARK_BUILD_[A-Z]+:BOOL=ON")
if(developer_options)
  message(FATAL_ERROR "a project that adds tzmark as a subdirectory gets ${developer_options}")
endif()
message("the consumer lists ${count} tensors")
