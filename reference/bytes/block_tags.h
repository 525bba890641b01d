// Tags of blocks that were verified on the first read of a file, to compare with on a second read.
//
// A file may change between two reads, by accident or by an attacker. A tag per block takes far less memory than the
// data. Tags are Poly1305 under a random key that never leaves the object: two different blocks of at most 4 MiB have
// the same tag with a probability below 2^-84.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace tzmark {

using BlockTag = std::array<unsigned char, 16>;

// Thread-safe.
class BlockTagger {
 public:
  BlockTagger();

  BlockTag tag(std::span<const std::byte> block) const;

 private:
  std::array<unsigned char, 32> key_;
};

}  // namespace tzmark
