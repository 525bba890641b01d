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

# The tools of the moved installation find their siblings and data.
file(GLOB commands RELATIVE "${SCRATCH}/moved prefix/bin" "${SCRATCH}/moved prefix/bin/*")
if(NOT commands STREQUAL "tzmark")
  message(FATAL_ERROR "bin contains ${commands}, and not tzmark alone")
endif()
set(tzmark "${SCRATCH}/moved prefix/bin/tzmark")
run("${tzmark}" verify "${CASE}.tensors")
run("${tzmark}" bench --list-io)
run("${tzmark}" conform --only "hash-*")
if(NOT output MATCHES "[1-9][0-9]* passed, 0 failed")
  message(FATAL_ERROR "tzmark conform printed\n${output}")
endif()

# The same program without CMake, by tzmark.pc.
find_program(pkg_config pkg-config REQUIRED)
find_program(compiler c++ REQUIRED)
set(ENV{PKG_CONFIG_PATH} "${SCRATCH}/moved prefix/lib/pkgconfig")
run("${pkg_config}" --modversion tzmark)
run(sh -c [[eval "\"\$2\" -std=c++20 \"\$3\" -o \"\$4\" $("$1" --cflags --libs tzmark)"]] sh
    "${pkg_config}" "${compiler}" "${consumer}/main.cc" "${SCRATCH}/list_tensors")
run("${SCRATCH}/list_tensors" "${CASE}.tensors")
set(by_pkg_config "${output}")
run("${SCRATCH}/build/list_tensors" "${CASE}.tensors")
if(NOT by_pkg_config STREQUAL output)
  message(FATAL_ERROR "the program by tzmark.pc printed\n${by_pkg_config}and not\n${output}")
endif()

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
