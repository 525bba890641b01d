// What a file is that is not what it was read as: a Git LFS pointer, a web page, an archive, a model of another format.
//
// Only asked when a file has failed, so that no valid file is ever refused. Looks at the first few KiB, and says
// nothing where they are not characteristic.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "tzmark/error.h"
#include "tzmark/io.h"

namespace tzmark {

// What a file was read as.
enum class ReadAs : std::uint8_t { kTensors, kDetachedData, kSafetensors, kShardIndex };

inline constexpr std::size_t kForeignLookBytes = 4096;

// Returns the text of an error: what a file looks like, and what to do. head: the first kForeignLookBytes of the file,
// or all of it.
std::optional<std::string> describe_foreign(std::span<const std::byte> head, std::uint64_t file_bytes, ReadAs read_as);

// Returns the error with what the file looks like as its message; rule and byte stay. Returns it unchanged if the file
// looks like nothing else, or cannot be read.
Error with_foreign_description(const Error& error, File& file, ReadAs read_as);

// Runs action, which reads the beginning of the file. is_beginning(code) tells which errors mean that the file does
// not begin as it should.
template <typename IsBeginning, typename Action>
auto describing_foreign(File& file, ReadAs read_as, IsBeginning&& is_beginning, Action&& action) {
  try {
    return action();
  } catch (const Error& error) {
    if (!is_beginning(error.code())) throw;
    throw with_foreign_description(error, file, read_as);
  }
}

}  // namespace tzmark
