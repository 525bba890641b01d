// A .tensors file as its content and its faults, which can be changed and written as a file again.
// A draft does not hold lengths, counts, offsets, copies, hashes and MACs: put_together() computes them. If the
// original file differs from the computed value, the draft keeps that as a deviation, under the name of the field. What
// the model cannot read is kept as bytes: a whole header, a hash list, a crypt block, or bytes between them.
//
// Thread-safety: values. Slices refer to bytes of others, which must outlive the draft, unless they share an owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/model.h"
#include "model/tables.h"

namespace tzmark::conformance::mutation {

// Constant bytes, shared by all drafts that have them.
struct Slice {
  std::shared_ptr<const std::vector<std::byte>> owner;  // null: the caller owns them
  model::Bytes bytes;

  Slice first(std::uint64_t size) const { return {owner, bytes.first(size)}; }
  Slice from(std::uint64_t offset) const { return {owner, bytes.subspan(offset)}; }
};

Slice slice_of(std::vector<std::byte> bytes);

// The actual value of a field that differs from the correct one.
struct Deviation {
  std::string bytes;
  // By how much that is wrong: of a number the difference, of anything longer than 8 bytes what is exclusive-or'd.
  std::string difference = {};
  bool relative = false;  // the difference is kept, and not the bytes, when the rest of the file changes
};

// By names of fields: "data version", "index entry: name_length", "tensor header: hash 1: hash value",
// "tensor header: crypt chunk 0: nonce". What depends on a field follows the deviation, so only the field itself is
// wrong: the name in a tensor header is a copy of what the index has, and a hash covers the header as it stands.
using Deviations = std::map<std::string, Deviation>;

struct DraftHash {
  std::uint8_t type = 0;
  std::string stored;  // its size; its bytes only where they cannot be worked out
};

struct DraftChunk {
  std::uint16_t type = 0;
  std::uint16_t method = 0;
  std::uint64_t opslimit = 0;
  std::uint64_t memlimit = 0;
  std::uint32_t alg = 0;
  std::string salt;
  std::uint64_t chunk_size = 0;
  std::string nonce;
  std::string macs;                // used only where they cannot be worked out
  std::int64_t extra_macs = 0;     // over what the data needs
  std::optional<std::string> raw;  // the payload, if nothing else is known of it
};

// Present if a header differs from its index entry in more than the value of a field.
struct DraftCopies {
  std::string name;
  std::string dtype;
  std::string dims;
};

struct DraftHeader {
  std::optional<Slice> raw;  // all of it, if it cannot be read; nothing else counts then
  std::uint16_t module_index = 0;
  std::optional<DraftCopies> copies;
  std::vector<DraftHash> hashes;
  std::optional<std::string> raw_hashes;  // what hashes_length counts
  std::vector<DraftChunk> chunks;
  std::optional<std::string> raw_crypt;  // what crypt_length counts
  std::string extra;                     // before data_length, where nothing should be
};

// A position in the file. Places are in the order of their ranks, each after its gap.
struct DraftPlace {
  std::uint64_t rank = 0;
  Slice gap;
};

struct DraftTensor {
  std::uint32_t entry_version = 0;  // of v5-long-dims
  std::string name;
  std::uint8_t kind = 0;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  DraftHeader header;
  std::optional<DraftPlace> header_place;  // nothing: it was not found
  Slice data;                              // plaintext, unless it is sealed
  std::optional<DraftPlace> data_place;
  bool sealed = false;  // encrypted with an unknown key: hashes, MACs and data stay unchanged
  std::optional<std::array<std::uint8_t, 32>> key;  // it is encrypted with
  Deviations deviations;
};

struct Draft {
  const model::Layout* layout = nullptr;
  bool encrypted = false;
  std::string magic;
  std::uint32_t data_version = 0;
  std::string flags;
  std::string unused;
  Slice metadata_gap;  // of v5-segments: before the index
  std::vector<DraftTensor> tensors;
  Slice index_rest;  // after the last readable entry, and counted by index_length
  Slice index_gap;   // of v5-segments: between index and header segment
  Slice data_gap;    // of v5-segments: between the last header and the data segment
  Slice tail;        // at the end: the terminator, and what cannot be read
  Deviations deviations;
};

// A field of the model's tables that can deviate, in a file from put_together().
struct Site {
  std::optional<std::size_t> tensor;  // nothing: of the file
  std::string name;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

}  // namespace tzmark::conformance::mutation
