// Checks that the names of a file form a tree: no duplicate, no path that is a prefix of another, siblings of one type.
//
// For one thread at a time. Needs memory in proportion to the bytes of the names: a tensor adds at most two nodes,
// regardless of the length of its path.
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
  // The same for a name that a caller asks for: throws kUsage with the broken rule.
  void add_new(std::string_view wire);

 private:
  enum class Children : std::uint8_t { kNone, kStrings, kIntegers };
  // A string's text, or the bytes of an integer.
  struct Element {
    bool is_integer;
    std::string_view bytes;
    bool operator==(const Element&) const = default;
  };
  // The rest of a path or of an edge: a sequence of encoded elements, or a plain name.
  struct Elements {
    std::string_view bytes;
    bool is_plain = false;

    bool empty() const { return bytes.empty() && !is_plain; }
    Element front() const;           // REQUIRES: not empty()
    Elements without_front() const;  // REQUIRES: not empty()
  };
  // A point where paths diverge or end, and the elements between the parent and it.
  struct Node {
    const char* edge;
    std::uint64_t hash;  // of the parent and the first element
    std::uint32_t edge_bytes;
    std::uint32_t parent;
    bool edge_is_plain;
    Children children = Children::kNone;
    bool is_tensor = false;

    Elements elements() const { return {{edge, edge_bytes}, edge_is_plain}; }
  };

  static Children sort_of(Element element) { return element.is_integer ? Children::kIntegers : Children::kStrings; }

  void insert(Elements path, std::uint64_t file_offset);
  void encode(const PathElement& element);
  void check_child(const Node& parent, Element first, std::uint64_t file_offset) const;
  void close(const Node& node, std::uint64_t file_offset) const;
  void add_leaf(std::uint32_t parent, Elements edge, std::uint64_t file_offset);
  std::uint32_t split(std::size_t slot, Elements lower_edge);
  std::size_t find_slot(std::uint32_t parent, Element first, std::uint64_t hash) const;
  void place(std::uint32_t node);
  void grow_if_full();
  std::uint64_t hash(std::uint32_t parent, Element element) const;

  std::array<unsigned char, 16> hash_key_;
  std::deque<Node> nodes_;            // a deque grows without a second copy
  std::vector<std::uint32_t> slots_;  // open addressing; 0 is empty, as the root is never looked up
  std::string encoded_;               // the path being added
  // The memory of the edges of structured names. A deque never moves its strings.
  std::deque<std::string> edges_;
};

}  // namespace tzmark
