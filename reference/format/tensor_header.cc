// Tensor headers: the second description of each tensor, with its hashes and its crypt block.
#include <fmt/format.h>

#include <algorithm>

#include "bytes/cursor.h"
#include "format/crypt_block.h"
#include "format/dimensions.h"
#include "tzmark/error.h"
#include "tzmark/format.h"

namespace tzmark {
namespace {

constexpr std::uint8_t kHashCrc32 = 0;
constexpr std::uint8_t kHashSha256 = 1;
constexpr std::size_t kCrc32Bytes = 4;
constexpr std::size_t kSha256Bytes = 32;

// header_length, module_index, kind, name_length, dtype_length, ndim, hashes_length, hash_count, data_length
constexpr std::uint64_t kFixedBytes = 8 + 2 + 1 + 2 + 1 + 1 + 2 + 1 + 8;

std::uint64_t variable_bytes(const TensorFields& tensor) {
  return tensor.name.size() + tensor.dtype.size() + tensor.shape_bytes();
}

void decode_hashes(std::span<const std::byte> list, std::uint64_t file_offset, std::size_t list_at,
                   std::vector<TensorHeader::Hash>& hashes) {
  ByteReader reader(list, file_offset, ErrorCode::kHashPastEnd, "the hash list");
  hashes.clear();
  const auto count = reader.integer<std::uint8_t>("the hash count");
  for (std::uint8_t i = 0; i < count; ++i) {
    const std::uint64_t at = reader.file_position();
    const auto type = reader.integer<std::uint8_t>("a hash's type");
    const auto size = reader.integer<std::uint8_t>("a hash's size");
    const std::size_t value_at = list_at + reader.position();
    reader.take(size, "a hash");
    if (type != kHashCrc32 && type != kHashSha256) {
      throw Error(ErrorCode::kHashType, fmt::format("hash type {} is unknown", type), at);
    }
    if (size != (type == kHashCrc32 ? kCrc32Bytes : kSha256Bytes)) {
      throw Error(ErrorCode::kHashSize, fmt::format("a hash of type {} with {} bytes", type, size), at + 1);
    }
    hashes.push_back({type == kHashSha256, static_cast<std::uint32_t>(value_at)});
  }
  if (reader.remaining() != 0) {
    throw Error(ErrorCode::kHashPastEnd, fmt::format("{} bytes after the last hash", reader.remaining()),
                reader.file_position());
  }
}

}  // namespace

std::optional<std::uint32_t> TensorHeader::crc32(std::span<const std::byte> header) const {
  const auto found = std::ranges::find(hashes, false, &Hash::is_sha256);
  if (found == hashes.end()) return std::nullopt;
  return load<std::uint32_t>(header, found->value_at);
}

std::optional<std::span<const std::byte>> TensorHeader::sha256(std::span<const std::byte> header) const {
  const auto found = std::ranges::find(hashes, true, &Hash::is_sha256);
  if (found == hashes.end()) return std::nullopt;
  return header.subspan(found->value_at, kSha256Bytes);
}

void decode_tensor_header(std::span<const std::byte> header, std::uint64_t file_offset, HeaderForm form,
                          TensorHeader& result) {
  ByteReader reader(header, file_offset, ErrorCode::kRecordFieldPastEnd, "the tensor header");
  result.header_length = reader.integer<std::uint64_t>("header_length");
  if (result.header_length == 0) {
    throw Error(ErrorCode::kRecordTerminator, "there is a terminator where the index has a tensor header", file_offset);
  }
  if (result.header_length != header.size()) {
    throw Error(ErrorCode::kRecordTruncated,
                fmt::format("header_length is {}, but the header has {} bytes", result.header_length, header.size()),
                file_offset);
  }
  result.module_index = reader.integer<std::uint16_t>("module_index");
  const std::uint64_t kind_at = reader.file_position();
  const auto kind = reader.integer<std::uint8_t>("the kind");
  if (kind > static_cast<std::uint8_t>(Kind::kStateDict)) {
    throw Error(ErrorCode::kIndexKind, fmt::format("kind {} is not 0, 1 or 2", kind), kind_at);
  }
  result.kind = static_cast<Kind>(kind);
  result.name = reader.text<std::uint16_t>("the name");
  result.dtype = reader.text<std::uint8_t>("the dtype");
  result.dimension_count = reader.integer<std::uint8_t>("the count of dimensions");
  result.wide_dimensions = form.wide_dimensions;
  decode_dimensions(reader.take(result.shape_bytes(), "the shape"), result);

  result.hashes_begin = reader.position();
  const auto hashes_length = reader.integer<std::uint16_t>("hashes_length");
  const std::size_t list_at = reader.position();
  const std::uint64_t list_file_offset = reader.file_position();
  if (hashes_length > reader.remaining()) {
    throw Error(ErrorCode::kHashPastEnd, "the hash list runs past the end of the tensor header", list_file_offset);
  }
  decode_hashes(reader.take(hashes_length, "the hash list"), list_file_offset, list_at, result.hashes);

  // data_length comes last, but checking the crypt block requires it, so nothing may lie between the two.
  result.crypt = {};
  result.crypt_begin = result.crypt_end = reader.position();
  std::span<const std::byte> crypt;
  std::uint64_t crypt_file_offset = 0;
  if (form.has_crypt) {
    if (reader.remaining() < 2 * sizeof(std::uint64_t)) {
      throw Error(ErrorCode::kCryptPastEnd, "the header of an encrypted tensor has no crypt block",
                  reader.file_position());
    }
    const std::uint64_t at = reader.file_position();
    const auto crypt_length = reader.integer<std::uint64_t>("crypt_length");
    if (crypt_length > reader.remaining()) {
      throw Error(ErrorCode::kCryptPastEnd, "the crypt block runs past the end of the tensor header", at);
    }
    crypt_file_offset = reader.file_position();
    crypt = reader.take(crypt_length, "the crypt block");
    result.crypt_end = reader.position();
  }
  const std::uint64_t length_at = reader.file_position();
  const auto data_length = reader.integer<std::int64_t>("data_length");
  if (reader.remaining() != 0) {
    throw Error(ErrorCode::kRecordExtraBytes,
                fmt::format("{} bytes of the header belong to none of its fields", reader.remaining()), length_at);
  }
  if (data_length < 0) {
    throw Error(ErrorCode::kRecordNegativeLength, fmt::format("data_length {} is negative", data_length), length_at);
  }
  result.data_length = static_cast<std::uint64_t>(data_length);
  if (form.has_crypt) result.crypt = decode_crypt_block(crypt, crypt_file_offset, result.data_length);
}

void check_header_agrees(const TensorFields& entry, const TensorHeader& header, std::uint64_t file_offset) {
  // Fields are consecutive from the header's start, so the lengths determine their positions.
  constexpr std::uint64_t kKindAt = 8 + 2;
  constexpr std::uint64_t kNameAt = kKindAt + 1 + 2;
  const std::uint64_t dtype_at = kNameAt + header.name.size() + 1;
  const std::uint64_t shape_at = dtype_at + header.dtype.size();
  const auto fail = [&](ErrorCode code, std::uint64_t at, std::string_view field, const auto& found,
                        const auto& wanted) {
    throw Error(code, fmt::format("the header's {} {} is {} in the index", field, found, wanted), file_offset + at);
  };
  const auto quoted = [](std::string_view text) { return fmt::format("'{}'", text); };
  const auto list = [](std::span<const std::uint64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); };
  if (header.name != entry.name) {
    fail(ErrorCode::kRecordName, kNameAt, "name", quoted(header.name), quoted(entry.name));
  }
  if (header.kind != entry.kind) {
    fail(ErrorCode::kRecordKind, kKindAt, "kind", kind_name(header.kind), kind_name(entry.kind));
  }
  if (header.dtype != entry.dtype) {
    fail(ErrorCode::kRecordDtype, dtype_at, "dtype", quoted(header.dtype), quoted(entry.dtype));
  }
  if (!std::ranges::equal(header.shape(), entry.shape())) {
    fail(ErrorCode::kRecordShape, shape_at, "shape", list(header.shape()), list(entry.shape()));
  }
  if (header.data_length != entry.data_length) {
    fail(ErrorCode::kRecordDataLength, header.header_length - sizeof(std::int64_t), "data_length", header.data_length,
         entry.data_length);
  }
}

std::uint64_t tensor_header_bytes_max(const TensorFields& tensor, bool has_crypt) {
  std::uint64_t bytes = kFixedBytes + variable_bytes(tensor) + 65535;
  if (has_crypt) {
    // As many MACs as the smallest chunk size requires, and the longest salt that its length field allows.
    bytes += 8 + 2 + 3 * (kChunkPrefixBytes + kParallelFixedBytes) + 65535 +
             message_count(tensor.data_length, kChunkSizeMin) * kMacBytes;
  }
  return bytes;
}

void append_hashed_header(Layout layout, std::span<const std::byte> header, const TensorHeader& decoded,
                          std::vector<std::byte>& out) {
  const std::size_t begin = out.size();
  if (headers_first(layout)) {
    const auto front = header.first(decoded.hashes_begin);
    const auto data_length = header.last(sizeof(std::int64_t));
    out.insert(out.end(), front.begin(), front.end());
    out.insert(out.end(), data_length.begin(), data_length.end());
    return;
  }
  out.insert(out.end(), header.begin(), header.begin() + decoded.crypt_begin);
  out.insert(out.end(), header.begin() + decoded.crypt_end, header.end());
  // Every hash precedes the crypt block, so its position has not changed.
  for (const TensorHeader::Hash& hash : decoded.hashes) {
    std::fill_n(out.begin() + static_cast<std::ptrdiff_t>(begin + hash.value_at),
                hash.is_sha256 ? kSha256Bytes : kCrc32Bytes, std::byte{0});
  }
}

std::uint64_t tensor_header_bytes(const TensorFields& tensor, const HeaderPlan& plan) {
  return kFixedBytes + variable_bytes(tensor) + (plan.crc32 ? 2 + kCrc32Bytes : 0) +
         (plan.sha256 ? 2 + kSha256Bytes : 0) + (plan.has_crypt ? crypt_block_bytes(tensor.data_length, plan) : 0);
}

HeaderSlots encode_tensor_header(const TensorFields& tensor, std::uint16_t module_index, const HeaderPlan& plan,
                                 const std::optional<KeyDerivation>& key_derivation, std::vector<std::byte>& out) {
  const std::size_t begin = out.size();
  ByteWriter writer(out);
  HeaderSlots slots;
  writer.integer(tensor_header_bytes(tensor, plan));
  writer.integer(module_index);
  writer.integer(static_cast<std::uint8_t>(tensor.kind));
  writer.text<std::uint16_t>(tensor.name);
  writer.text<std::uint8_t>(tensor.dtype);
  writer.integer(tensor.dimension_count);
  encode_dimensions(writer, tensor);
  writer.integer(
      static_cast<std::uint16_t>(1 + (plan.crc32 ? 2 + kCrc32Bytes : 0) + (plan.sha256 ? 2 + kSha256Bytes : 0)));
  writer.integer(static_cast<std::uint8_t>((plan.crc32 ? 1 : 0) + (plan.sha256 ? 1 : 0)));
  const auto hash = [&](std::uint8_t type, std::size_t size) {
    writer.integer(type);
    writer.integer(static_cast<std::uint8_t>(size));
    const std::size_t at = writer.position();
    writer.zeros(size);
    return at;
  };
  if (plan.crc32) slots.crc32_at = hash(kHashCrc32, kCrc32Bytes);
  if (plan.sha256) slots.sha256_at = hash(kHashSha256, kSha256Bytes);
  if (plan.has_crypt) encode_crypt_block(tensor.data_length, plan, key_derivation, slots, out);
  writer.integer(static_cast<std::int64_t>(tensor.data_length));
  slots.crc32_at -= plan.crc32 ? begin : 0;
  slots.sha256_at -= plan.sha256 ? begin : 0;
  slots.nonce_at -= slots.nonce_at != 0 ? begin : 0;
  slots.macs_at -= slots.macs_at != 0 ? begin : 0;
  return slots;
}

}  // namespace tzmark
