// Safetensors files in the canonical JSON of the adapter protocol; see safetensors_document.h.
#include "adapters/reference/safetensors_document.h"

#include <fmt/format.h>

#include <algorithm>

namespace tzmark::adapter {
namespace {

using Json = nlohmann::ordered_json;

std::string hex_digits(const std::array<std::byte, 32>& bytes) {
  std::string digits;
  for (const std::byte byte : bytes) digits += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return digits;
}

Json pairs_of(const std::map<std::string, std::string>& metadata) {
  Json pairs = Json::array();
  for (const auto& [key, text] : metadata) pairs.push_back(Json::array({key, text}));
  return pairs;
}

Json decoded_tensors(const SafetensorsReader& reader) {
  Json tensors = Json::array();
  for (std::size_t i = 0; i < reader.size(); ++i) {
    const SafetensorsTensor tensor = reader[i];
    tensors.push_back({{"path", Json::array({tensor.name})},
                       {"kind", "state_dict"},
                       {"module_index", 0},
                       {"dtype", tensor.torch_dtype.empty() ? Json() : Json(tensor.torch_dtype)},
                       {"wire_dtype", tensor.dtype},
                       {"shape", std::vector<std::uint64_t>(tensor.shape.begin(), tensor.shape.end())},
                       {"meta", false},
                       {"data_length", tensor.data_length()},
                       {"sha256", nullptr},
                       {"crc32_field", nullptr},
                       {"sha256_field", nullptr}});
  }
  reader.scan([&](std::size_t tensor, const auto& sha256) { tensors[tensor]["sha256"] = hex_digits(sha256); });
  return tensors;
}

}  // namespace

Json decode_safetensors(const SafetensorsReader& reader) {
  return {{"data_version", nullptr},
          {"layout", "safetensors"},
          {"encrypted", false},
          {"metadata", pairs_of(reader.shards().front().metadata)},
          {"tensors", decoded_tensors(reader)}};
}

Json decode_sharded(const SafetensorsReader& reader) {
  Json tensors = decoded_tensors(reader);
  const auto name_of = [](const Json& tensor) { return tensor["path"][0].get<std::string>(); };
  std::sort(tensors.begin(), tensors.end(),
            [&](const Json& one, const Json& other) { return name_of(one) < name_of(other); });
  return {{"data_version", nullptr},
          {"layout", "safetensors-sharded"},
          {"encrypted", false},
          {"tensors", std::move(tensors)}};
}

}  // namespace tzmark::adapter
