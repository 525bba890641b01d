// Safetensors models in the canonical JSON of the adapter protocol; see safetensors_document.h.
#include "adapters/reference/safetensors_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

namespace tzmark::adapter {
namespace {

using Json = nlohmann::ordered_json;

std::string hex_digits(const std::array<std::byte, 32>& bytes) {
  std::string digits;
  for (const std::byte byte : bytes) digits += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return digits;
}

Json tensor_of(const SafetensorsTensor& tensor, const std::array<std::byte, 32>& sha256) {
  return {{"path", Json::array({tensor.name})},
          {"kind", "state_dict"},
          {"module_index", 0},
          {"dtype", tensor.torch_dtype.empty() ? Json() : Json(tensor.torch_dtype)},
          {"wire_dtype", tensor.dtype},
          {"shape", std::vector<std::uint64_t>(tensor.shape.begin(), tensor.shape.end())},
          {"meta", false},
          {"data_length", tensor.data_length()},
          {"sha256", hex_digits(sha256)},
          {"crc32_field", nullptr},
          {"sha256_field", nullptr}};
}

// Tensor by tensor: the values of a document take several times the memory of its text. members: those before the
// tensors. order: numbers of tensors.
std::string document(const SafetensorsReader& reader, const std::string& members,
                     const std::vector<std::size_t>& order) {
  std::vector<std::array<std::byte, 32>> digests(reader.size());
  reader.scan([&](std::size_t tensor, const auto& sha256) { std::ranges::copy(sha256, digests[tensor].begin()); });
  std::string text = "{" + members + R"("data_version":null,"encrypted":false,"tensors":[)";
  for (const std::size_t i : order) {
    if (text.back() == '}') text += ',';
    text += tensor_of(reader[i], digests[i]).dump();
  }
  return text + "]}";
}

std::vector<std::size_t> numbers_of(const SafetensorsReader& reader) {
  std::vector<std::size_t> numbers(reader.size());
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  return numbers;
}

}  // namespace

std::string decode_safetensors(const SafetensorsReader& reader) {
  Json metadata = Json::array();
  for (const auto& [key, text] : reader.shards().front().metadata) metadata.push_back(Json::array({key, text}));
  return document(reader, R"("layout":"safetensors","metadata":)" + metadata.dump() + ",", numbers_of(reader));
}

std::string decode_sharded(const SafetensorsReader& reader) {
  std::vector<std::size_t> order = numbers_of(reader);
  std::ranges::sort(order, {}, [&](std::size_t i) { return reader[i].name; });
  return document(reader, R"("layout":"safetensors-sharded",)", order);
}

}  // namespace tzmark::adapter
