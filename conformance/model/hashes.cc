// The hashes of tensors; see hashes.h.
#include "model/hashes.h"

#include <openssl/sha.h>
#include <zlib.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "model/text.h"

namespace tzmark::conformance::model {
namespace {

constexpr std::uint64_t kCrc32Bytes = 4;

std::vector<std::byte> sha256(Bytes message) {
  std::vector<std::byte> digest(SHA256_DIGEST_LENGTH);
  SHA256(reinterpret_cast<const unsigned char*>(message.data()), message.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

std::vector<std::byte> crc32(Bytes message) {
  const auto number =
      static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const unsigned char*>(message.data()), message.size()));
  std::vector<std::byte> bytes(kCrc32Bytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(number >> 8 * i & 0xff);
  return bytes;
}

const ParsedStructure* hash_list(const ParsedStructure& header) {
  const auto found = std::find_if(header.children.begin(), header.children.end(),
                                  [](const ParsedStructure& child) { return child.structure == &kHashList; });
  return found == header.children.end() ? nullptr : &*found;
}

// The header bytes that the hashes cover.
std::vector<std::byte> hashed_header(const Reading& reading, const ParsedStructure& header) {
  const Value& length = *header.find("data_length");
  const Value& hashes_length = *header.find("hashes_length");
  std::vector<std::byte> message;
  const auto add = [&](std::uint64_t begin, std::uint64_t end) {
    const Bytes bytes = reading.file.subspan(begin, end - begin);
    message.insert(message.end(), bytes.begin(), bytes.end());
  };
  if (reading.layout->headers_first) {
    add(header.begin, hashes_length.offset);
  } else {
    const std::uint64_t hashes_end = hashes_length.offset + hashes_length.size + hashes_length.number;
    // In a plain file nothing lies between the hashes and data_length, unless that rule is left out.
    add(header.begin, reading.encrypted ? hashes_end : length.offset);
    for (const ParsedStructure& hash : hash_list(header)->children) {
      const Value* value = hash.find("hash value");
      if (value) std::fill_n(message.begin() + (value->offset - header.begin), value->size, std::byte{0});
    }
  }
  add(length.offset, length.offset + length.size);
  return message;
}

}  // namespace

std::string sha256_of(Bytes data) { return hex_digits(sha256(data)); }

std::vector<StoredHash> stored_hashes(const ParsedStructure& header) {
  std::vector<StoredHash> hashes;
  const ParsedStructure* list = hash_list(header);
  if (!list) return hashes;
  for (std::size_t i = 0; i < list->children.size(); ++i) {
    const ParsedStructure& hash = list->children[i];
    const Value* value = hash.find("hash value");
    if (!value) continue;
    const std::uint64_t type = hash.find("hash type")->number;
    const bool fits = (type == kHashCrc32 && value->size == kCrc32Bytes) ||
                      (type == kHashSha256 && value->size == SHA256_DIGEST_LENGTH);
    if (fits) hashes.push_back({i, type, value});
  }
  return hashes;
}

void check_hashes(Reading& reading, std::size_t i, Bytes plaintext) {
  const ParsedStructure& header = *reading.tensors[i].header;
  StructureId id{kTensorHeader.name, i};
  const std::vector<StoredHash> hashes = stored_hashes(header);
  if (hashes.empty()) {
    reading.notes.defect({.rule = "TZR-HSH-004",
                          .offset = header.find("hashes_length")->offset,
                          .structure = id,
                          .wanted = Words{"there is no hash to verify"}});
    return;
  }
  std::vector<std::byte> message = hashed_header(reading, header);
  message.insert(message.end(), plaintext.begin(), plaintext.end());
  // A header may list a type many times, and the data is long.
  std::map<std::uint64_t, std::vector<std::byte>> right;
  for (const auto& [number, type, value] : hashes) {
    if (!right.contains(type)) right[type] = type == kHashCrc32 ? crc32(message) : sha256(message);
    const Bytes stored = reading.file.subspan(value->offset, value->size);
    const bool is_crc32 = type == kHashCrc32;
    const auto crc32_of = [&](Bytes bytes) {
      return reading.notes.number({kTensorHeader.name, i}, kCrc32Field, bytes);
    };
    if (is_crc32 ? crc32_of(stored) == crc32_of(right[type])
                 : std::equal(stored.begin(), stored.end(), right[type].begin())) {
      continue;
    }
    id.item = kHash.name;
    id.number = number;
    reading.notes.defect({.rule = is_crc32 ? "TZR-HSH-005" : "TZR-HSH-006",
                          .offset = value->offset,
                          .structure = id,
                          .field = "hash value",
                          .wanted = Words{is_crc32 ? "the CRC32 is not that of header and data"
                                                   : "the SHA-256 is not that of header and data"}});
  }
}

}  // namespace tzmark::conformance::model
