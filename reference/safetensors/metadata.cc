// What becomes of the metadata of safetensors files when tensors pass between the formats.
#include <fmt/format.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "tzmark/error.h"
#include "tzmark/safetensors.h"

namespace tzmark {

std::map<std::string, std::string> torch_metadata() { return {{"format", "pt"}}; }

void require_no_lost_metadata(const std::map<std::string, std::string>& metadata, std::string_view advice) {
  constexpr std::size_t kKeysShown = 3;
  const auto implied = torch_metadata();
  std::string keys;
  std::size_t lost = 0;
  for (const auto& [key, value] : metadata) {
    if (const auto found = implied.find(key); found != implied.end() && found->second == value) continue;
    if (++lost <= kKeysShown) keys += fmt::format("{}'{}'", keys.empty() ? "" : ", ", key);
  }
  if (lost == 0) return;
  if (lost > kKeysShown) keys += fmt::format(" and {} more", lost - kKeysShown);
  throw Error(ErrorCode::kUsage,
              fmt::format("the metadata {} would be lost, because a .tensors file has none: {}", keys, advice));
}

void require_one_metadata(const SafetensorsReader& reader, const std::map<std::string, std::string>& settled,
                          std::string_view advice) {
  std::map<std::string_view, std::pair<std::string_view, std::string_view>> found;  // value, and where it is
  const auto add = [&](const std::map<std::string, std::string>& metadata, std::string_view place) {
    for (const auto& [key, value] : metadata) {
      const auto [first, is_new] = found.try_emplace(key, value, place);
      if (is_new || first->second.first == value || settled.contains(key)) continue;
      throw Error(ErrorCode::kUsage,
                  fmt::format("the metadata '{}' is '{}' in {} and '{}' in {}, and only one value can be kept: {}", key,
                              first->second.first, first->second.second, value, place, advice));
    }
  };
  for (const SafetensorsShard& shard : reader.shards()) add(shard.metadata, shard.file_name);
  add(reader.index_metadata(), "the index");
}

}  // namespace tzmark
