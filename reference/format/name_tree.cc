// A tree of path elements in one hash table.
//
// The hash is keyed and random (SipHash), so a hostile file cannot make all its names collide.
#include "format/name_tree.h"

#include <fmt/format.h>
#include <sodium.h>

#include <limits>

#include "tzmark/error.h"

namespace tzmark {
namespace {

constexpr std::uint32_t kRoot = 0;

}  // namespace

NameTree::NameTree() : slots_(64) {
  static_assert(std::tuple_size_v<decltype(hash_key_)> == crypto_shorthash_KEYBYTES);
  if (sodium_init() < 0) throw Error(ErrorCode::kResource, "libsodium cannot be initialised");
  crypto_shorthash_keygen(hash_key_.data());
  nodes_.push_back({{}, 0, 0, kRoot, Children::kNone, false, false});
}

void NameTree::add(std::string_view wire, std::uint64_t file_offset) {
  if (!wire.starts_with(kStructuredNameMark)) {
    close(descend(kRoot, false, wire, 0, file_offset, true), file_offset);
    return;
  }
  std::uint32_t node = kRoot;
  for (const PathElement& element : parse_name(wire, file_offset)) {
    if (const auto* index = std::get_if<std::uint64_t>(&element)) {
      node = descend(node, true, {}, *index, file_offset, true);
    } else {
      node = descend(node, false, std::get<std::string>(element), 0, file_offset, false);
    }
  }
  close(node, file_offset);
}

std::uint64_t NameTree::hash(std::uint32_t parent, bool is_integer, std::string_view text, std::uint64_t index) const {
  if (is_integer) text = {reinterpret_cast<const char*>(&index), sizeof index};
  std::uint64_t of_element = 0;
  crypto_shorthash(reinterpret_cast<unsigned char*>(&of_element), reinterpret_cast<const unsigned char*>(text.data()),
                   text.size(), hash_key_.data());
  // An odd factor spreads equal elements of different parents; nobody chooses the numbers of parents.
  constexpr std::uint64_t kSpread = 0x9e3779b97f4a7c15;
  return of_element ^ (parent * kSpread);
}

std::uint32_t NameTree::descend(std::uint32_t parent, bool is_integer, std::string_view text, std::uint64_t index,
                                std::uint64_t file_offset, bool text_is_stable) {
  if (nodes_[parent].is_tensor) {
    throw Error(ErrorCode::kNamePrefix, "the path of another tensor is the beginning of this one", file_offset);
  }
  const Children sort = is_integer ? Children::kIntegers : Children::kStrings;
  if (nodes_[parent].children != Children::kNone && nodes_[parent].children != sort) {
    throw Error(ErrorCode::kNameMixedSiblings, "a string and an integer stand at the same place of two paths",
                file_offset);
  }
  nodes_[parent].children = sort;

  const std::size_t mask = slots_.size() - 1;
  const std::uint64_t element_hash = hash(parent, is_integer, text, index);
  std::size_t slot = element_hash & mask;
  while (slots_[slot] != 0) {
    const Node& node = nodes_[slots_[slot]];
    if (node.hash == element_hash && node.parent == parent && node.is_integer == is_integer && node.text == text &&
        node.index == index) {
      return slots_[slot];
    }
    slot = (slot + 1) & mask;
  }
  if (nodes_.size() == std::numeric_limits<std::uint32_t>::max()) {
    throw Error(ErrorCode::kResource, "more than 2^32 path elements", file_offset);
  }
  if (!text_is_stable) text = unescaped_.emplace_back(text);
  const auto created = static_cast<std::uint32_t>(nodes_.size());
  slots_[slot] = created;
  nodes_.push_back({text, index, element_hash, parent, Children::kNone, is_integer, false});
  if (nodes_.size() * 2 > slots_.size()) grow();
  return created;
}

void NameTree::close(std::uint32_t node, std::uint64_t file_offset) {
  if (nodes_[node].is_tensor) throw Error(ErrorCode::kNameDuplicate, "another tensor has the same path", file_offset);
  if (nodes_[node].children != Children::kNone) {
    throw Error(ErrorCode::kNamePrefix, "this path is the beginning of another tensor's", file_offset);
  }
  nodes_[node].is_tensor = true;
}

void NameTree::grow() {
  slots_.assign(slots_.size() * 2, 0);
  const std::size_t mask = slots_.size() - 1;
  for (std::uint32_t i = 1; i < nodes_.size(); ++i) {
    std::size_t slot = nodes_[i].hash & mask;
    while (slots_[slot] != 0) slot = (slot + 1) & mask;
    slots_[slot] = i;
  }
}

}  // namespace tzmark
