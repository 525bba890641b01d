// Safetensors files in the canonical JSON of the adapter protocol; see safetensors_document.h.
#include "adapters/reference/safetensors_document.h"

#include <fmt/format.h>

namespace tzmark::adapter {
namespace {

using Json = nlohmann::ordered_json;

std::string hex_digits(const std::array<std::byte, 32>& bytes) {
  std::string digits;
  for (const std::byte byte : bytes) digits += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return digits;
}

}  // namespace

Json decode_safetensors(const SafetensorsReader& reader) {
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
  return {{"data_version", nullptr}, {"layout", "safetensors"}, {"encrypted", false}, {"tensors", std::move(tensors)}};
}

}  // namespace tzmark::adapter
