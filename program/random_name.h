// Names that other users cannot guess, for new files in directories that they can write to.
#pragma once

#include <cstddef>
#include <random>
#include <string>
#include <string_view>

namespace tzmark {

// Returns the prefix and 16 random characters: 80 bits.
inline std::string random_name(std::string_view prefix) {
  constexpr std::string_view kCharacters = "abcdefghijklmnopqrstuvwxyz234567";
  constexpr std::size_t kLength = 16;
  std::random_device random;
  std::string name(prefix);
  for (std::size_t i = 0; i < kLength; ++i) name += kCharacters[random() % kCharacters.size()];
  return name;
}

}  // namespace tzmark
