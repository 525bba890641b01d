// Checks that the names of a file form a tree: no duplicate, no path that begins another, siblings of one sort.
//
// For one thread at a time. Memory is in proportion to the names' own bytes.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "tzmark/path.h"

namespace tzmark {

class NameTree {
 public:
  NameTree();

  // wire must outlive the tree. Throws Error with a TZR-NAM rule and the given file offset.
  void add(std::string_view wire, std::uint64_t file_offset);

 private:
  enum class Children : std::uint8_t { kNone, kStrings, kIntegers };
  struct Node {
    std::string_view text;  // of a string element
    std::uint64_t index;    // of an integer element
    std::uint64_t hash;
    std::uint32_t parent;
    Children children = Children::kNone;
    bool is_integer;
    bool is_tensor = false;
  };

  std::uint32_t descend(std::uint32_t parent, bool is_integer, std::string_view text, std::uint64_t index,
                        std::uint64_t file_offset, bool text_is_stable);
  void close(std::uint32_t node, std::uint64_t file_offset);
  void grow();
  std::uint64_t hash(std::uint32_t parent, bool is_integer, std::string_view text, std::uint64_t index) const;

  std::array<unsigned char, 16> hash_key_;
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> slots_;  // open addressing; 0 is empty, as the root is never looked up
  // Texts of structured names, which differ from the stored bytes. A deque never moves its strings.
  std::deque<std::string> unescaped_;
};

}  // namespace tzmark
