// Tags of blocks that were checked on one read of a file, so that a second read hands out no other bytes.
//
// A file may change between two reads, by accident or by an attacker who wants unchecked bytes to pass for checked
// ones. Holding a tag per block costs far less memory than holding the data. Tags are Poly1305 under a random key that
// never leaves the object: two different blocks of at most 4 MiB share a tag with a probability below 2^-84.
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
