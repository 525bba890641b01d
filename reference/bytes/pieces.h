// Bytes that are too many for memory, a piece after the other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tzmark {

// Calls visit(offset, piece) with memory for each piece of that many bytes, in order. The last piece may be shorter.
template <typename Visit>
void for_each_piece(std::uint64_t bytes, std::size_t piece_bytes, Visit&& visit) {
  std::vector<std::byte> memory(static_cast<std::size_t>(std::min<std::uint64_t>(piece_bytes, bytes)));
  for (std::uint64_t offset = 0; offset < bytes; offset += memory.size()) {
    const std::uint64_t left = bytes - offset;
    visit(offset, std::span(memory).first(static_cast<std::size_t>(std::min<std::uint64_t>(memory.size(), left))));
  }
}

}  // namespace tzmark
