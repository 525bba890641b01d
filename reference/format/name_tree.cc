// A tree of paths in one hash table, with nodes only where paths diverge or end.
//
// The hash is keyed and random (SipHash), so a hostile file cannot make all its names collide.
#include "format/name_tree.h"

#include <fmt/format.h>
#include <sodium.h>

#include <limits>

#include "bytes/requires.h"
#include "format/name_elements.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

constexpr std::uint32_t kRoot = 0;

// An encoded element is a varint, which contains the number of bytes times 2 and whether it is an integer, then the
// bytes.
constexpr unsigned kVarintBits = 7;

struct Head {
  std::size_t head_bytes, element_bytes;
  bool is_integer;
};

Head decode_head(std::string_view bytes) {
  std::uint64_t value = 0;
  std::size_t at = 0;
  for (unsigned shift = 0;; shift += kVarintBits) {
    const auto byte = static_cast<unsigned char>(bytes[at++]);
    value |= std::uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) break;
  }
  return {at, static_cast<std::size_t>(value >> 1), (value & 1) != 0};
}

void encode_head(std::string& out, std::size_t element_bytes, bool is_integer) {
  std::uint64_t value = element_bytes << 1 | static_cast<std::uint64_t>(is_integer);
  for (; value >= 0x80; value >>= kVarintBits) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

}  // namespace

NameTree::NameTree() : slots_(64) {
  static_assert(std::tuple_size_v<decltype(hash_key_)> == crypto_shorthash_KEYBYTES);
  if (sodium_init() < 0) throw Error(ErrorCode::kResource, "libsodium failed to initialize");
  crypto_shorthash_keygen(hash_key_.data());
  nodes_.push_back({"", 0, 0, kRoot, false});
}

NameTree::Element NameTree::Elements::front() const {
  TZMARK_REQUIRES(!empty());
  if (is_plain) return {false, bytes};
  const Head head = decode_head(bytes);
  return {head.is_integer, bytes.substr(head.head_bytes, head.element_bytes)};
}

NameTree::Elements NameTree::Elements::without_front() const {
  TZMARK_REQUIRES(!empty());
  if (is_plain) return {};
  const Head head = decode_head(bytes);
  return {bytes.substr(head.head_bytes + head.element_bytes)};
}

void NameTree::add(std::string_view wire, std::uint64_t file_offset) {
  if (!wire.starts_with(kStructuredNameMark)) return insert({wire, true}, file_offset);
  encoded_.clear();
  for_each_element(wire, file_offset, [this](PathElement&& element) { encode(element); });
  insert({encoded_}, file_offset);
}

void NameTree::encode(const PathElement& element) {
  if (const auto* text = std::get_if<std::string>(&element)) {
    encode_head(encoded_, text->size(), false);
    encoded_ += *text;
    return;
  }
  std::string bytes;
  for (auto rest = std::get<std::uint64_t>(element); rest != 0; rest >>= 8) bytes += static_cast<char>(rest);
  encode_head(encoded_, bytes.size(), true);
  encoded_ += bytes;
}

void NameTree::add_new(std::string_view wire) {
  try {
    add(wire, 0);
  } catch (const Error& error) {
    throw Error(ErrorCode::kUsage, fmt::format("{} ({})", error.message(), error.rule()));
  }
}

void NameTree::insert(Elements path, std::uint64_t file_offset) {
  std::uint32_t node = kRoot;
  while (!path.empty()) {
    const Element first = path.front();
    check_child(nodes_[node], first, file_offset);
    const std::size_t slot = find_slot(node, first, hash(node, first));
    if (slots_[slot] == 0) return add_leaf(node, path, file_offset);
    Elements edge = nodes_[slots_[slot]].elements();
    while (!edge.empty() && !path.empty() && edge.front() == path.front()) {
      edge = edge.without_front();
      path = path.without_front();
    }
    if (edge.empty()) {
      node = slots_[slot];
      continue;
    }
    if (path.empty())
      throw Error(ErrorCode::kNamePrefix, "this path is the beginning of another tensor's", file_offset);
    node = split(slot, edge);
  }
  close(nodes_[node], file_offset);
}

void NameTree::check_child(const Node& parent, Element first, std::uint64_t file_offset) const {
  if (parent.is_tensor) {
    throw Error(ErrorCode::kNamePrefix, "the path of another tensor is the beginning of this one", file_offset);
  }
  if (parent.children != Children::kNone && parent.children != sort_of(first)) {
    throw Error(ErrorCode::kNameMixedSiblings, "two paths have a string and an integer at the same place", file_offset);
  }
}

// Called for a path that ends at the node of another one.
void NameTree::close(const Node& node, std::uint64_t file_offset) const {
  if (node.is_tensor) throw Error(ErrorCode::kNameDuplicate, "another tensor has the same path", file_offset);
  throw Error(ErrorCode::kNamePrefix, "this path is the beginning of another tensor's", file_offset);
}

void NameTree::add_leaf(std::uint32_t parent, Elements edge, std::uint64_t file_offset) {
  // A leaf may require a second node that splits an edge.
  if (nodes_.size() >= std::numeric_limits<std::uint32_t>::max() - 1) {
    throw Error(ErrorCode::kResource, "more than 2^32 nodes in the tree of names", file_offset);
  }
  const Element first = edge.front();
  if (!edge.is_plain) edge.bytes = edges_.emplace_back(edge.bytes);
  const auto leaf = static_cast<std::uint32_t>(nodes_.size());
  nodes_[parent].children = sort_of(first);
  nodes_.push_back({edge.bytes.data(), hash(parent, first), static_cast<std::uint32_t>(edge.bytes.size()), parent,
                    edge.is_plain, Children::kNone, true});
  place(leaf);
  grow_if_full();
}

// Splits the edge of the node in that slot, which keeps lower_edge, and returns the new node.
std::uint32_t NameTree::split(std::size_t slot, Elements lower_edge) {
  const std::uint32_t lower = slots_[slot];
  const auto upper = static_cast<std::uint32_t>(nodes_.size());
  Node node = nodes_[lower];
  node.edge_bytes = static_cast<std::uint32_t>(lower_edge.bytes.data() - node.edge);
  node.children = sort_of(lower_edge.front());
  node.is_tensor = false;
  nodes_.push_back(node);
  slots_[slot] = upper;
  nodes_[lower].edge = lower_edge.bytes.data();
  nodes_[lower].edge_bytes = static_cast<std::uint32_t>(lower_edge.bytes.size());
  nodes_[lower].parent = upper;
  nodes_[lower].hash = hash(upper, lower_edge.front());
  place(lower);
  grow_if_full();
  return upper;
}

std::uint64_t NameTree::hash(std::uint32_t parent, Element element) const {
  std::uint64_t of_element = 0;
  crypto_shorthash(reinterpret_cast<unsigned char*>(&of_element),
                   reinterpret_cast<const unsigned char*>(element.bytes.data()), element.bytes.size(),
                   hash_key_.data());
  // An odd factor separates equal elements of different parents, whose numbers an attacker does not control.
  constexpr std::uint64_t kSpread = 0x9e3779b97f4a7c15;
  return of_element ^ (parent * kSpread);
}

// The slot of the parent's child whose edge begins with first, or the empty one where it would be.
std::size_t NameTree::find_slot(std::uint32_t parent, Element first, std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = hash & mask;
  for (; slots_[slot] != 0; slot = (slot + 1) & mask) {
    const Node& node = nodes_[slots_[slot]];
    if (node.hash == hash && node.parent == parent && node.elements().front() == first) break;
  }
  return slot;
}

void NameTree::place(std::uint32_t node) {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = nodes_[node].hash & mask;
  while (slots_[slot] != 0) slot = (slot + 1) & mask;
  slots_[slot] = node;
}

void NameTree::grow_if_full() {
  if (nodes_.size() * 2 <= slots_.size()) return;
  const std::size_t doubled = slots_.size() * 2;
  slots_ = {};
  slots_.resize(doubled);
  for (std::uint32_t i = 1; i < nodes_.size(); ++i) place(i);
}

}  // namespace tzmark
