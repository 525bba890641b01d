# tzmark_add_test(NAME sources... LIBS libraries...)
# One GoogleTest executable, registered with CTest as NAME. Its cases run in one process: CTest's unit is the directory.
function(tzmark_add_test name)
  if(NOT TZMARK_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "LIBS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} tzmark_small_options GTest::gmock GTest::gtest GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${TZMARK_TEST_TIMEOUT_S} ENVIRONMENT
    "TZMARK_SOURCE_DIR=${tzmark_SOURCE_DIR};TZMARK_BUILD_DIR=${tzmark_BINARY_DIR}")
endfunction()
