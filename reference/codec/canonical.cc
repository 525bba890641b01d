// Canonical JSON, in index order.
#include "tzmark/canonical.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "bytes/digest.h"
#include "codec/canonical_lines.h"

namespace tzmark {
namespace {

using nlohmann::ordered_json;

ordered_json path_json(const Path& path) {
  ordered_json array = ordered_json::array();
  for (const PathElement& element : path) {
    std::visit([&](const auto& value) { array.push_back(value); }, element);
  }
  return array;
}

// Returns the line of one tensor. Lines are kept as text until all are complete, since tensors arrive in any order.
std::string tensor_line(const TensorInfo& tensor, const ScannedTensor& scanned) {
  const auto crc32 = scanned.header.crc32(scanned.header_bytes);
  const auto sha256 = scanned.header.sha256(scanned.header_bytes);
  ordered_json json;
  json["path"] = path_json(tensor.path());
  json["kind"] = kind_name(tensor.kind);
  json["module_index"] = scanned.header.module_index;
  json["dtype"] = tensor.dtype.foreign() ? ordered_json() : ordered_json(tensor.dtype.name);
  json["wire_dtype"] = tensor.dtype.wire;
  json["shape"] = std::vector<std::uint64_t>(tensor.shape.begin(), tensor.shape.end());
  json["meta"] = tensor.meta();
  json["data_length"] = tensor.data_length;
  json["sha256"] = scanned.plain_sha256 ? ordered_json(to_hex(*scanned.plain_sha256)) : ordered_json();
  json["crc32_field"] = crc32 ? ordered_json(fmt::format("{:08x}", *crc32)) : ordered_json();
  json["sha256_field"] = sha256 ? ordered_json(to_hex(*sha256)) : ordered_json();
  return json.dump();
}

}  // namespace

std::string canonical_json(const Reader& reader) {
  std::vector<std::string> lines(reader.tensors().size());
  reader.scan({.plain_sha256 = true}, [&](const ScannedTensor& scanned) {
    lines[scanned.index] = tensor_line(reader.tensors()[scanned.index], scanned);
  });
  return canonical_document(
      fmt::format(R"("data_version": {}, "layout": "{}", "encrypted": {})", reader.header().data_version,
                  layout_name(reader.layout()), reader.header().encrypted),
      lines);
}

}  // namespace tzmark
