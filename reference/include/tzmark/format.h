// The structures of the file format, decoded from bytes and encoded to bytes. No system calls.
//
// reference/FORMAT.md specifies the layouts and states the rule for each error. Integers are little-endian.
// Decoders accept arbitrary bytes: they throw Error with the rule and the byte offset, and never read past the end. The
// views that they return point into the caller's bytes.
// Thread-safety: all functions are thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tzmark/dtype.h"
#include "tzmark/path.h"

namespace tzmark {

// A layout is the arrangement of a file. Data versions 1 to 4 have one each, data version 5 has four: a feature flag
// marks the released one, and a reader tells the others apart by content.
enum class Layout : std::uint8_t {
  kV1 = 1,
  kV2 = 2,
  kV3 = 3,
  kV4 = 4,
  kV5FlaggedDims,   // as v4, with dimensions of 2^32 and more, under feature flag 1: what tensorizer 2.12 writes
  kV5HeadersFirst,  // all tensor headers before all data
  kV5Segments,      // the same in relocatable segments, with a section that contains their offsets
  kV5LongDims,      // as v5-flagged-dims, without the flag; no release reads it
};

// What a layout is and can hold. Everything that differs between layouts asks these, so that another layout is another
// row; only what has a wire structure of its own needs more code.
struct LayoutTraits {
  Layout layout;
  std::string_view name;  // "v5-segments"
  std::uint32_t data_version;
  std::uint8_t feature_flag = 0;    // the bit of the first byte of feature flags that marks it; 0 = none does
  bool headers_first = false;       // all tensor headers precede all data, and hashes cover less of them
  bool has_segments = false;        // a section gives the offsets of segments, in which entries count from their begin
  bool has_entry_versions = false;  // each index entry has a version, which gives the width of its dimensions
  bool holds_opaque_dtypes = true;
  bool holds_meta_tensors = true;
  bool may_be_encrypted = true;
  bool must_be_encrypted = false;
};
// In the order of the enumeration.
inline constexpr std::array<LayoutTraits, 8> kLayoutTraits = {{
    {.layout = Layout::kV1,
     .name = "v1",
     .data_version = 1,
     .holds_opaque_dtypes = false,
     .holds_meta_tensors = false,
     .may_be_encrypted = false},
    {.layout = Layout::kV2, .name = "v2", .data_version = 2, .holds_meta_tensors = false, .may_be_encrypted = false},
    {.layout = Layout::kV3, .name = "v3", .data_version = 3, .holds_meta_tensors = false, .must_be_encrypted = true},
    {.layout = Layout::kV4, .name = "v4", .data_version = 4},
    {.layout = Layout::kV5FlaggedDims,
     .name = "v5-flagged-dims",
     .data_version = 5,
     .feature_flag = 2,
     .has_entry_versions = true},
    {.layout = Layout::kV5HeadersFirst, .name = "v5-headers-first", .data_version = 5, .headers_first = true},
    {.layout = Layout::kV5Segments,
     .name = "v5-segments",
     .data_version = 5,
     .headers_first = true,
     .has_segments = true},
    {.layout = Layout::kV5LongDims, .name = "v5-long-dims", .data_version = 5, .has_entry_versions = true},
}};
constexpr const LayoutTraits& traits_of(Layout layout) { return kLayoutTraits[static_cast<std::size_t>(layout) - 1]; }
static_assert([] {
  for (const LayoutTraits& row : kLayoutTraits) {
    if (&traits_of(row.layout) != &row) return false;
  }
  return true;
}());
inline constexpr auto kLayouts = [] {
  std::array<Layout, kLayoutTraits.size()> layouts{};
  for (std::size_t i = 0; i < layouts.size(); ++i) layouts[i] = kLayoutTraits[i].layout;
  return layouts;
}();

constexpr std::string_view layout_name(Layout layout) { return traits_of(layout).name; }
std::optional<Layout> layout_from_name(std::string_view name);
constexpr std::uint32_t data_version(Layout layout) { return traits_of(layout).data_version; }
constexpr bool headers_first(Layout layout) { return traits_of(layout).headers_first; }
constexpr bool has_segments(Layout layout) { return traits_of(layout).has_segments; }
// Only such layouts can hold dimensions of 2^32 and more.
constexpr bool has_entry_versions(Layout layout) { return traits_of(layout).has_entry_versions; }

enum class Kind : std::uint8_t { kParameter = 0, kBuffer = 1, kStateDict = 2 };

std::string_view kind_name(Kind kind);  // "parameter"

// --- File header -----------------------------------------------------------------------------------------------------

inline constexpr std::array<unsigned char, 5> kMagic = {'|', 'T', 'Z', 'R', '|'};
inline constexpr std::size_t kFileHeaderBytes = 65;
inline constexpr std::size_t kClassicIndexBegin = kFileHeaderBytes + sizeof(std::uint64_t);  // after index_length
inline constexpr std::size_t kTerminatorBytes = 8;

#pragma pack(push, 1)
struct FileHeaderWire {
  unsigned char magic[5];
  std::uint32_t data_version;
  unsigned char feature_flags[32];
  std::uint64_t total_data_bytes;  // informative
  std::uint64_t pair_number;       // of a file with detached data; otherwise zero and not interpreted
  std::uint64_t tensor_count;
};
#pragma pack(pop)
static_assert(sizeof(FileHeaderWire) == kFileHeaderBytes);
static_assert(offsetof(FileHeaderWire, data_version) == 5);
static_assert(offsetof(FileHeaderWire, feature_flags) == 9);
static_assert(offsetof(FileHeaderWire, total_data_bytes) == 41);
static_assert(offsetof(FileHeaderWire, pair_number) == 49);
static_assert(offsetof(FileHeaderWire, tensor_count) == 57);

struct FileHeader {
  std::uint32_t data_version = 1;
  bool encrypted = false;        // every tensor header has a crypt block
  std::uint8_t layout_flag = 0;  // LayoutTraits::feature_flag of the layout
  bool detached_data = false;    // the data is in another file: an extension of tzmark, FORMAT.md, appendix A
  std::uint64_t total_data_bytes = 0;
  std::uint64_t pair_number = 0;  // identifies the detached data of this file
  std::uint64_t tensor_count = 0;
};

// bytes: the beginning of the file; at least 65 bytes unless the file is shorter.
FileHeader decode_file_header(std::span<const std::byte> bytes);
std::array<std::byte, kFileHeaderBytes> encode_file_header(const FileHeader& header);

// --- Segments --------------------------------------------------------------------------------------------------------

// The segments of a v5-segments file, as offsets in the file; data_begin of detached data is an offset in that.
struct Segments {
  std::uint64_t metadata_begin = 0, metadata_end = 0;  // index_length and index
  std::uint64_t headers_begin = 0, headers_end = 0;
  std::uint64_t data_begin = 0;

  friend bool operator==(const Segments&, const Segments&) = default;
};

#pragma pack(push, 1)
struct LayoutSectionWire {
  std::uint8_t version;
  std::uint8_t entry_count;
  std::uint8_t metadata_tag;
  std::uint64_t metadata_begin, metadata_end;
  std::uint8_t headers_tag;
  std::uint64_t headers_begin, headers_end;
  std::uint8_t data_tag;
  std::uint64_t data_begin;
};
#pragma pack(pop)
static_assert(sizeof(LayoutSectionWire) == 45);
static_assert(offsetof(LayoutSectionWire, metadata_begin) == 3);
static_assert(offsetof(LayoutSectionWire, headers_begin) == 20);
static_assert(offsetof(LayoutSectionWire, data_begin) == 37);

inline constexpr std::size_t kLayoutSectionBegin = kFileHeaderBytes + sizeof(std::uint64_t);  // after layout_length
inline constexpr std::size_t kLayoutSectionEnd = kLayoutSectionBegin + sizeof(LayoutSectionWire);
inline constexpr std::uint64_t kSegmentEndUnit = 4096;  // aligns segment ends, and the data of v5-headers-first
inline constexpr std::uint64_t kSegmentDataUnit = 8;

// Returns whether a file of data version 5 is in layout v5-segments. No index of 45 bytes can begin like its layout
// section. bytes: the beginning of the file.
bool has_layout_section(std::span<const std::byte> bytes);
// Throws TZR-SEG-001. Does not check that the segments lie inside the file. bytes: the beginning of the file.
Segments decode_layout_section(std::span<const std::byte> bytes);
// Returns layout_length and the section.
std::array<std::byte, kLayoutSectionEnd - kFileHeaderBytes> encode_layout_section(const Segments& segments);

// --- Tensors ---------------------------------------------------------------------------------------------------------

// The maximal number of dimensions: ndim is one byte.
inline constexpr std::size_t kMaxDimensions = 255;

// Returns product(shape) * item_bytes; none if that is 2^63 or more.
std::optional<std::uint64_t> nominal_bytes(std::span<const std::uint64_t> shape, std::uint64_t item_bytes);

// The fields that the index entry and the tensor header have in common. Decoding checks only that they fit.
struct TensorFields {
  Kind kind = Kind::kParameter;
  std::string_view name;
  std::string_view dtype;
  bool wide_dimensions = false;  // stored as u64 each, in layouts with entry versions; otherwise as u32
  std::uint8_t dimension_count = 0;
  std::array<std::uint64_t, kMaxDimensions> dimensions;  // the first dimension_count are set
  std::uint64_t data_length = 0;

  std::span<const std::uint64_t> shape() const { return {dimensions.data(), dimension_count}; }
  std::size_t shape_bytes() const {
    return dimension_count * (wide_dimensions ? sizeof(std::uint64_t) : sizeof(std::uint32_t));
  }
};

struct IndexEntry : TensorFields {
  std::uint64_t header_offset = 0;
  std::uint64_t data_offset = 0;
  // The offsets of the entry's fields in the file, for errors.
  std::uint64_t name_at = 0, kind_at = 0, dtype_at = 0, shape_at = 0, header_offset_at = 0, data_offset_at = 0,
                data_length_at = 0;
};

// In layouts with entry versions, an entry begins with one, which gives the width of its dimensions.
inline constexpr std::size_t kEntryVersionBytes = 4;
inline constexpr std::uint32_t kEntryVersionNarrow = 1;
inline constexpr std::uint32_t kEntryVersionWide = 5;

// The minimal and maximal size of an index entry.
inline constexpr std::size_t kIndexEntryBytesMin = 2 + 1 + 1 + 1 + 3 * 8;
inline constexpr std::size_t kIndexEntryBytesMax =
    kEntryVersionBytes + kIndexEntryBytesMin + 65535 + 255 + kMaxDimensions * 8;

class ByteReader;
class ByteWriter;

// Offsets are as stored: in v5-segments, relative to their segments.
void decode_index_entry(ByteReader& reader, Layout layout, IndexEntry& entry);
// REQUIRES: the name has at most 65535 bytes, the dtype at most 255, and dimensions are below 2^32 unless they are
// wide; only layouts with entry versions have wide dimensions.
void encode_index_entry(ByteWriter& writer, Layout layout, const TensorFields& tensor, std::uint64_t header_offset,
                        std::uint64_t data_offset);
std::size_t index_entry_bytes(Layout layout, const TensorFields& tensor);

// --- Encryption ------------------------------------------------------------------------------------------------------

inline constexpr std::size_t kKeyBytes = 32;
inline constexpr std::size_t kNonceBytes = 24;
inline constexpr std::size_t kMacBytes = 16;
inline constexpr std::size_t kSaltBytes = 16;
inline constexpr std::uint64_t kDefaultChunkBytes = 2 << 20;  // as upstream writes

// The parameters of Argon2id v1.3, which derives the key from a passphrase.
struct KeyDerivation {
  std::uint64_t opslimit = 0;
  std::uint64_t memlimit = 0;  // bytes
  std::array<std::byte, kSaltBytes> salt{};

  friend bool operator==(const KeyDerivation&, const KeyDerivation&) = default;
};

// How a tensor's data is encrypted. A message is the range that one MAC covers: the parallel chunk type divides the
// data into messages of message_bytes, of which the last may be shorter; the sequential type has a single message.
struct Cipher {
  bool sequential = false;
  std::uint64_t message_bytes = 0;
  std::array<std::byte, kNonceBytes> nonce{};  // of message 0; that of message i is nonce + i
  std::span<const std::byte> macs;             // kMacBytes each
};

struct CryptBlock {
  std::optional<KeyDerivation> key_derivation;
  std::optional<Cipher> cipher;
};

// --- Tensor header ---------------------------------------------------------------------------------------------------

struct TensorHeader : TensorFields {
  std::uint64_t header_length = 0;
  std::uint16_t module_index = 0;
  // A header may store a hash twice; all of them must match.
  struct Hash {
    bool is_sha256;
    std::uint32_t value_at;  // position in the header
  };
  std::vector<Hash> hashes;
  CryptBlock crypt;
  std::size_t hashes_begin = 0;                // position of hashes_length in the header
  std::size_t crypt_begin = 0, crypt_end = 0;  // the crypt block, including its length field

  std::optional<std::uint32_t> crc32(std::span<const std::byte> header) const;                // the first one
  std::optional<std::span<const std::byte>> sha256(std::span<const std::byte> header) const;  // the first one
};

// What a decoder must know about a header in advance.
struct HeaderForm {
  bool has_crypt = false;        // the file is encrypted
  bool wide_dimensions = false;  // the index entry has wide dimensions
};

// header: exactly the bytes of the header; if data follows it, all bytes before the data.
// Fills result, whose views point into header.
void decode_tensor_header(std::span<const std::byte> header, std::uint64_t file_offset, HeaderForm form,
                          TensorHeader& result);

// Throws TZR-REC-006 to 010 if the header and the index entry differ.
void check_header_agrees(const TensorFields& entry, const TensorHeader& header, std::uint64_t file_offset);

// Returns the maximal size of the header of a tensor with these fields; a longer one breaks TZR-REC-004.
std::uint64_t tensor_header_bytes_max(const TensorFields& tensor, bool has_crypt);

// Appends to out what the hashes cover before the data. In the headers-first layouts: what precedes the hashes, and
// data_length. In the others: the header with zeroed hash values and without the crypt block.
void append_hashed_header(Layout layout, std::span<const std::byte> header, const TensorHeader& decoded,
                          std::vector<std::byte>& out);

struct HeaderPlan {
  bool crc32 = false;
  bool sha256 = false;
  bool has_crypt = false;
  bool has_key_derivation = false;  // applies to tensors with data only
  std::uint64_t chunk_bytes = 0;
};

// Returns data_length / message_bytes, rounded up. REQUIRES: message_bytes > 0.
std::uint64_t message_count(std::uint64_t data_length, std::uint64_t message_bytes);

// Returns the size of the header that encode_tensor_header appends.
std::uint64_t tensor_header_bytes(const TensorFields& tensor, const HeaderPlan& plan);

// Positions in the header of what is known only after the data; encode_tensor_header writes zeros there.
struct HeaderSlots {
  std::size_t crc32_at = 0, sha256_at = 0, nonce_at = 0, macs_at = 0;
};

// Appends a header with zeros in place of hash values, nonce and MACs.
HeaderSlots encode_tensor_header(const TensorFields& tensor, std::uint16_t module_index, const HeaderPlan& plan,
                                 const std::optional<KeyDerivation>& key_derivation, std::vector<std::byte>& out);

}  // namespace tzmark
