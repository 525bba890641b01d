// The canonical JSON of a safetensors file.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bytes/digest.h"
#include "codec/canonical_lines.h"
#include "tzmark/safetensors.h"

namespace tzmark {
namespace {

using nlohmann::ordered_json;

std::string tensor_line(const SafetensorsTensor& tensor, const Sha256Digest& sha256) {
  ordered_json json;
  json["path"] = ordered_json::array({tensor.name});
  json["dtype"] = tensor.torch_dtype.empty() ? ordered_json() : ordered_json(tensor.torch_dtype);
  json["wire_dtype"] = tensor.dtype;
  json["shape"] = std::vector<std::uint64_t>(tensor.shape.begin(), tensor.shape.end());
  json["data_length"] = tensor.data_length();
  json["sha256"] = to_hex(sha256);
  return json.dump();
}

}  // namespace

std::string canonical_json(const SafetensorsReader& reader) {
  std::vector<std::string> lines(reader.size());
  reader.scan(
      [&](std::size_t tensor, const Sha256Digest& sha256) { lines[tensor] = tensor_line(reader[tensor], sha256); });
  return canonical_document(
      fmt::format(R"("format": "safetensors", "metadata": {})", nlohmann::json(reader.metadata()).dump()), lines);
}

}  // namespace tzmark
