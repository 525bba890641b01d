// The SHA-256 of a file, by which the corpus knows its own files again.
//
// Thread-safety: a pure function of the file.
#pragma once

#include <filesystem>
#include <string>

namespace tzmark::conformance {

// 64 lower-case hexadecimal digits. Throws EnvironmentError if the file cannot be read to its end.
std::string sha256_of_file(const std::filesystem::path& file);

}  // namespace tzmark::conformance
