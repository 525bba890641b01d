// The content of a file as canonical JSON; see canonical_document.h.
#include "model/canonical_document.h"

#include <fmt/format.h>

#include "model/hashes.h"
#include "model/text.h"

namespace tzmark::conformance::model {
namespace {

Json text_or_null(const std::optional<std::string>& text) { return text ? Json(*text) : Json(); }

// The first hash of a type, as in canonical JSON: a CRC32 as a number, a SHA-256 as bytes.
Json hash_field(Bytes file, const std::optional<ParsedStructure>& header, std::uint64_t type) {
  for (const StoredHash& hash : header ? stored_hashes(*header) : std::vector<StoredHash>()) {
    if (hash.type != type) continue;
    const Bytes bytes = file.subspan(hash.value->offset, hash.value->size);
    if (type == kHashCrc32) return fmt::format("{:08x}", little_endian(bytes));
    return hex_digits(bytes);
  }
  return nullptr;
}

Json tensor_document(Bytes file, const Tensor& tensor, const std::optional<std::string>& sha256) {
  const auto number = [](const std::optional<ParsedStructure>& record, std::string_view name) {
    const Value* value = record ? record->find(name) : nullptr;
    return value ? Json(value->number) : Json();
  };
  const Value& dtype = *tensor.entry.find("dtype");
  return {{"path", tensor.name.path ? to_json(*tensor.name.path) : Json()},
          {"kind", kind_name(tensor.entry.find("kind")->number)},
          {"module_index", number(tensor.header, "module_index")},
          {"dtype", text_or_null(tensor.dtype.torch)},
          {"wire_dtype", text_of(file.subspan(dtype.offset, dtype.size))},
          {"shape", tensor.shape},
          {"meta", tensor.meta},
          {"data_length", tensor.data_length},
          {"sha256", tensor.meta ? Json() : text_or_null(sha256)},
          {"crc32_field", hash_field(file, tensor.header, kHashCrc32)},
          {"sha256_field", hash_field(file, tensor.header, kHashSha256)}};
}

}  // namespace

Json canonical_document(const Reading& reading, const std::vector<std::optional<std::string>>& data_sha256) {
  Json tensors = Json::array();
  for (std::size_t i = 0; i < reading.tensors.size(); ++i) {
    tensors.push_back(tensor_document(reading.file, reading.tensors[i], data_sha256[i]));
  }
  return {{"data_version", reading.file_header.find("data version")->number},
          {"layout", reading.layout->name},
          {"encrypted", reading.encrypted},
          {"tensors", std::move(tensors)}};
}

}  // namespace tzmark::conformance::model
