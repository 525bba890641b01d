// Names of checkpoints and of what is in them.
#include "checkpoint/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "tzmark/error.h"

namespace tzmark::checkpoint {
namespace {

constexpr std::size_t kSaveIdBytesMax = 64;

bool is_save_id(std::string_view id) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  };
  return !id.empty() && id.size() <= kSaveIdBytesMax && std::ranges::all_of(id, allowed);
}

}  // namespace

Place place_of(const std::string& directory) {
  const std::size_t end = directory.find_last_not_of('/');
  const std::string_view whole = std::string_view(directory).substr(0, end == std::string::npos ? 0 : end + 1);
  const std::size_t slash = whole.rfind('/');
  Place place;
  place.name = slash == std::string_view::npos ? whole : whole.substr(slash + 1);
  place.parent = slash == std::string_view::npos ? "." : slash == 0 ? "/" : whole.substr(0, slash);
  const bool usable = !place.name.empty() && place.name != "." && place.name != ".." && place.name != kLatestName &&
                      place.name.find(kTemporaryMark) == std::string::npos;
  if (!usable) throw Error(ErrorCode::kUsage, fmt::format("a checkpoint cannot be called '{}'", directory));
  return place;
}

std::string rank_directory(std::uint32_t rank) { return fmt::format("rank_{}", rank); }

std::string new_save_id() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

void check_save_id(std::string_view id) {
  if (!is_save_id(id)) {
    throw Error(ErrorCode::kUsage, fmt::format("a save id is 1 to {} letters, digits, '-', '_' and '.', and not '{}'",
                                               kSaveIdBytesMax, id));
  }
}

bool is_temporary_name(std::string_view name) {
  const std::size_t mark = name.rfind(kTemporaryMark);
  return mark != std::string_view::npos && mark != 0 && is_save_id(name.substr(mark + kTemporaryMark.size()));
}

bool is_own_file_name(std::string_view name) {
  for (const std::string_view known : {kCommitName, kStateName, kShardingName, kManifestName, kLatestName}) {
    if (name == known) return true;
  }
  for (const std::string_view stem : {kModel, kOptimizer}) {
    if (name.starts_with(stem) && name.substr(stem.size()).starts_with('.')) return true;
  }
  return false;
}

bool is_rank_directory_name(std::string_view name) {
  constexpr std::string_view kPrefix = "rank_";
  return name.starts_with(kPrefix) && name.size() > kPrefix.size() &&
         name.find_first_not_of("0123456789", kPrefix.size()) == std::string_view::npos;
}

}  // namespace tzmark::checkpoint
