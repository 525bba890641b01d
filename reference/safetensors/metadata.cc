// What becomes of the metadata of safetensors files when tensors pass between the formats.
#include <fmt/format.h>

#include <map>
#include <string>
#include <string_view>

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

}  // namespace tzmark
