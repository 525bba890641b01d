// A file under a name, for what reads files by their names.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <span>

#include "expect.h"
#include "testing/files/test_directory.h"

namespace tzmark::fuzz {

// One directory a process, among the temporary files.
inline const std::filesystem::path& scratch_directory() {
  static const test::TestDirectory directory;
  static const std::filesystem::path path = directory.name();
  return path;
}

inline void write_scratch(const std::filesystem::path& file, std::span<const std::byte> bytes) {
  std::ofstream stream(file, std::ios::binary | std::ios::trunc);
  stream.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  expect(static_cast<bool>(stream.flush()), "there is room for a scratch file");
}

}  // namespace tzmark::fuzz
