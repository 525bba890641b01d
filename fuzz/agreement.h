// The codec against the model of the suite, about a file in memory. Each shares no code with the other, so that what
// both say is right unless both are wrong in the same way.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <random>
#include <span>
#include <string>

#include "runner/file_format.h"

namespace tzmark::fuzz {

// What the codec is asked. Each throws tzmark::Error for a file that it rejects.
struct Codec {
  std::function<std::string()> decode;  // canonical JSON
  std::function<void()> verify;
};

// Ends the process unless the codec says what the model requires: the verdict, and the content of what it accepts.
// Which of several broken rules it names is its own choice.
void require_agreement(const conformance::FileFormat& format, std::span<const std::byte> file,
                       const std::optional<std::string>& key_hex, const Codec& codec);

// The body of LLVMFuzzerCustomMutator: half of the inputs are changed as files of the format, with lengths, hashes and
// MACs that follow the change, so that they get past the first checks; the others by libFuzzer.
std::size_t mutate(const conformance::FileFormat& format, const std::optional<std::string>& key_hex, std::uint8_t* data,
                   std::size_t size, std::size_t max_size, unsigned seed);

}  // namespace tzmark::fuzz
