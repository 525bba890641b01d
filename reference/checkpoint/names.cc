// Names of checkpoints and of what is in them.
#include "checkpoint/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <random>

#include "bytes/cursor.h"
#include "bytes/digest.h"
#include "tzmark/checkpoint.h"
#include "tzmark/error.h"

namespace tzmark::checkpoint {
namespace {

constexpr std::size_t kSaveIdBytesMax = 64;

bool has_id_characters(std::string_view id) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  };
  return !id.empty() && std::ranges::all_of(id, allowed);
}

std::string mark_of(std::string_view unmarked_name) {
  return fmt::format("{:016x}", crc64(0, as_bytes(unmarked_name)));
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
  if (!has_id_characters(id) || id.size() > kSaveIdBytesMax) {
    throw Error(ErrorCode::kUsage, fmt::format("a save id is 1 to {} letters, digits, '-', '_' and '.', and not '{}'",
                                               kSaveIdBytesMax, id));
  }
}

std::string temporary_name(const std::string& name, std::string_view id) {
  const std::string unmarked = fmt::format("{}{}{}", name, kTemporaryMark, id);
  return fmt::format("{}.{}", unmarked, mark_of(unmarked));
}

bool is_temporary_name(std::string_view name) {
  const std::size_t mark = name.rfind(kTemporaryMark);
  return mark != std::string_view::npos && mark != 0 && has_id_characters(name.substr(mark + kTemporaryMark.size()));
}

bool is_marked_name(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return is_temporary_name(name) && is_temporary_name(name.substr(0, dot)) &&
         name.substr(dot + 1) == mark_of(name.substr(0, dot));
}

bool is_own_file_name(std::string_view name, bool in_rank) {
  constexpr std::array<std::string_view, 5> kEverywhere = {kStateName, "model.safetensors", "model.tensors",
                                                           "optimizer.safetensors", "optimizer.tensors"};
  constexpr std::array<std::string_view, 4> kAtTheTop = {kCommitName, kShardingName, kLatestName, kUnfinishedName};
  if (std::ranges::find(kEverywhere, name) != kEverywhere.end()) return true;
  return in_rank ? name == kManifestName : std::ranges::find(kAtTheTop, name) != kAtTheTop.end();
}

bool is_rank_directory_name(std::string_view name) {
  constexpr std::string_view kPrefix = "rank_";
  if (!name.starts_with(kPrefix)) return false;
  const std::string_view number = name.substr(kPrefix.size());
  std::uint32_t rank = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), rank);
  return error == std::errc() && rank < kWorldSizeMax && name == rank_directory(rank);
}

}  // namespace tzmark::checkpoint

namespace tzmark {
namespace {

constexpr std::array<std::string_view, 3> kCommitMethods = {"auto", "rename", "marker"};

}  // namespace

std::string_view commit_method_name(CommitMethod method) { return kCommitMethods[static_cast<std::size_t>(method)]; }

std::optional<CommitMethod> commit_method_from_name(std::string_view name) {
  const auto found = std::ranges::find(kCommitMethods, name);
  if (found == kCommitMethods.end()) return std::nullopt;
  return static_cast<CommitMethod>(found - kCommitMethods.begin());
}

}  // namespace tzmark
