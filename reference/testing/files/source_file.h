// For tests: the text of a file of the checkout, for tests that hold documents against the code.
#pragma once

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace tzmark::test {

// name: relative to the top of the checkout, which CTest gives in TZMARK_SOURCE_DIR.
inline std::string read_source_file(const std::string& name) {
  const char* const source = std::getenv("TZMARK_SOURCE_DIR");
  if (source == nullptr) throw std::runtime_error("TZMARK_SOURCE_DIR is not set; ctest sets it");
  std::ifstream stream(std::string(source) + "/" + name, std::ios::binary);
  if (!stream) throw std::runtime_error("cannot open " + name);
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace tzmark::test
