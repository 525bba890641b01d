// Safetensors files as the adapter protocol wants them told; see safetensors_document.h.
#include "adapters/reference/safetensors_document.h"

namespace tzmark::adapter {

using Json = nlohmann::ordered_json;

Json decode_safetensors(const SafetensorsReader& reader) {
  const Json printed = Json::parse(canonical_json(reader));
  Json tensors = Json::array();
  for (const Json& tensor : printed.at("tensors")) {
    tensors.push_back({{"path", tensor.at("path")},
                       {"kind", "state_dict"},
                       {"module_index", 0},
                       {"dtype", tensor.at("dtype")},
                       {"wire_dtype", tensor.at("wire_dtype")},
                       {"shape", tensor.at("shape")},
                       {"meta", false},
                       {"data_length", tensor.at("data_length")},
                       {"sha256", tensor.at("sha256")},
                       {"crc32_field", nullptr},
                       {"sha256_field", nullptr}});
  }
  return {{"data_version", nullptr}, {"layout", "safetensors"}, {"encrypted", false}, {"tensors", std::move(tensors)}};
}

}  // namespace tzmark::adapter
