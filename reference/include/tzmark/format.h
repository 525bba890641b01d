// The structures of the file format, decoded from bytes and encoded to them. No system calls here.
//
// The layouts are those of reference/FORMAT.md, which states the rule behind each error. Integers are little-endian.
// Decoders take bytes of any content: they throw Error with the rule and the byte offset, and never read past the
// bytes. Views that they return point into the caller's bytes. All functions are thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tzmark/dtype.h"
#include "tzmark/path.h"

namespace tzmark {

// A layout is how a data version arranges a file. (Data version 5 will have three.)
enum class Layout : std::uint8_t { kV1 = 1, kV2 = 2, kV3 = 3, kV4 = 4 };

std::string_view layout_name(Layout layout);  // "v1"
std::optional<Layout> layout_from_name(std::string_view name);
inline std::uint32_t data_version(Layout layout) { return static_cast<std::uint32_t>(layout); }

enum class Kind : std::uint8_t { kParameter = 0, kBuffer = 1, kStateDict = 2 };

std::string_view kind_name(Kind kind);  // "parameter"

// --- File header -----------------------------------------------------------------------------------------------------

inline constexpr std::array<unsigned char, 5> kMagic = {'|', 'T', 'Z', 'R', '|'};
inline constexpr std::size_t kFileHeaderBytes = 65;
inline constexpr std::size_t kClassicIndexBegin = kFileHeaderBytes + sizeof(std::uint64_t);  // behind index_length
inline constexpr std::size_t kTerminatorBytes = 8;

#pragma pack(push, 1)
struct FileHeaderWire {
  unsigned char magic[5];
  std::uint32_t data_version;
  unsigned char feature_flags[32];
  std::uint64_t total_data_bytes;  // informative
  std::uint64_t reserved;          // zeros, not interpreted
  std::uint64_t tensor_count;
};
#pragma pack(pop)
static_assert(sizeof(FileHeaderWire) == kFileHeaderBytes);
static_assert(offsetof(FileHeaderWire, data_version) == 5);
static_assert(offsetof(FileHeaderWire, feature_flags) == 9);
static_assert(offsetof(FileHeaderWire, total_data_bytes) == 41);
static_assert(offsetof(FileHeaderWire, reserved) == 49);
static_assert(offsetof(FileHeaderWire, tensor_count) == 57);

struct FileHeader {
  std::uint32_t data_version = 1;
  bool encrypted = false;  // every tensor header has a crypt block
  std::uint64_t total_data_bytes = 0;
  std::uint64_t tensor_count = 0;
};

// bytes: the beginning of the file, at least 65 bytes of it if the file has them.
FileHeader decode_file_header(std::span<const std::byte> bytes);
std::array<std::byte, kFileHeaderBytes> encode_file_header(const FileHeader& header);

// --- Tensors ---------------------------------------------------------------------------------------------------------

// The largest count of dimensions: ndim is one byte.
inline constexpr std::size_t kMaxDimensions = 255;

// product(shape) * item_bytes; nothing if that is 2^63 or more.
std::optional<std::uint64_t> nominal_bytes(std::span<const std::uint64_t> shape, std::uint64_t item_bytes);

// What the index and the tensor header both say, as they say it: nothing here is checked but that it fits.
struct TensorFields {
  Kind kind = Kind::kParameter;
  std::string_view name;
  std::string_view dtype;
  std::uint8_t dimension_count = 0;
  std::array<std::uint64_t, kMaxDimensions> dimensions;  // the first dimension_count are set
  std::uint64_t data_length = 0;

  std::span<const std::uint64_t> shape() const { return {dimensions.data(), dimension_count}; }
};

struct IndexEntry : TensorFields {
  std::uint64_t header_offset = 0;
  std::uint64_t data_offset = 0;
  // Where in the file the entry's fields are, for errors.
  std::uint64_t name_at = 0, kind_at = 0, dtype_at = 0, shape_at = 0, header_offset_at = 0, data_offset_at = 0,
                data_length_at = 0;
};

// The smallest and the largest index entry there can be.
inline constexpr std::size_t kIndexEntryBytesMin = 2 + 1 + 1 + 1 + 3 * 8;
inline constexpr std::size_t kIndexEntryBytesMax = kIndexEntryBytesMin + 65535 + 255 + kMaxDimensions * 4;

class ByteReader;
class ByteWriter;

void decode_index_entry(ByteReader& reader, IndexEntry& entry);
void encode_index_entry(ByteWriter& writer, const TensorFields& tensor, std::uint64_t header_offset,
                        std::uint64_t data_offset);
std::size_t index_entry_bytes(const TensorFields& tensor);

// --- Encryption ------------------------------------------------------------------------------------------------------

inline constexpr std::size_t kKeyBytes = 32;
inline constexpr std::size_t kNonceBytes = 24;
inline constexpr std::size_t kMacBytes = 16;
inline constexpr std::size_t kSaltBytes = 16;
inline constexpr std::uint64_t kDefaultChunkBytes = 2 << 20;  // what upstream writes

// How the key comes from a passphrase: Argon2id v1.3 with these parameters.
struct KeyDerivation {
  std::uint64_t opslimit = 0;
  std::uint64_t memlimit = 0;  // bytes
  std::array<std::byte, kSaltBytes> salt{};

  friend bool operator==(const KeyDerivation&, const KeyDerivation&) = default;
};

// How a tensor's data is sealed. A message is what one MAC covers: the parallel chunk type cuts the data into messages
// of message_bytes, the last one shorter; the sequential type makes one message of it all.
struct Cipher {
  bool sequential = false;
  std::uint64_t message_bytes = 0;
  std::array<std::byte, kNonceBytes> nonce{};  // of message 0; message i has nonce + i
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
  // Stored hashes. A header may carry one twice; all of them have to be right.
  struct Hash {
    bool is_sha256;
    std::uint32_t value_at;  // in the header
  };
  std::vector<Hash> hashes;
  CryptBlock crypt;
  // The crypt block, its length field included, is left out of the hashed bytes: [crypt_begin, crypt_end).
  std::size_t crypt_begin = 0, crypt_end = 0;

  std::optional<std::uint32_t> crc32(std::span<const std::byte> header) const;                // the first one
  std::optional<std::span<const std::byte>> sha256(std::span<const std::byte> header) const;  // the first one
};

// header: exactly the bytes between header_offset and the tensor's data (v1 to v4).
// Fills result, whose views point into header. has_crypt: the file is encrypted.
void decode_tensor_header(std::span<const std::byte> header, std::uint64_t file_offset, bool has_crypt,
                          TensorHeader& result);

// Throws TZR-REC-006 to 010 if the header describes another tensor than the index entry.
void check_header_agrees(const TensorFields& entry, const TensorHeader& header, std::uint64_t file_offset);

// The longest header a tensor of these fields can have; anything longer cannot be exactly the sum of its fields.
std::uint64_t tensor_header_bytes_max(const TensorFields& tensor, bool has_crypt);

// What the hashes cover before the data: the header with hash values zeroed, without the crypt block (v1 to v4).
// Appends to out.
void append_hashed_header(std::span<const std::byte> header, const TensorHeader& decoded, std::vector<std::byte>& out);

struct HeaderPlan {
  bool crc32 = false;
  bool sha256 = false;
  bool has_crypt = false;
  bool has_key_derivation = false;  // counts for tensors with data only
  std::uint64_t chunk_bytes = 0;
};

std::uint64_t message_count(std::uint64_t data_length, std::uint64_t message_bytes);

// Length of the header that encode_tensor_header writes.
std::uint64_t tensor_header_bytes(const TensorFields& tensor, const HeaderPlan& plan);

// Where encode_tensor_header left room for what is known only after the data: positions in the header.
struct HeaderSlots {
  std::size_t crc32_at = 0, sha256_at = 0, nonce_at = 0, macs_at = 0;
};

// Appends a header with zeros for hash values, nonce and MACs.
HeaderSlots encode_tensor_header(const TensorFields& tensor, std::uint16_t module_index, const HeaderPlan& plan,
                                 const std::optional<KeyDerivation>& key_derivation, std::vector<std::byte>& out);

}  // namespace tzmark
