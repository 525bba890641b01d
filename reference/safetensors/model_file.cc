// Finding a model file, and its format by its content.
#include "tzmark/model_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <span>
#include <system_error>
#include <vector>

#include "bytes/cursor.h"
#include "codec/foreign_file.h"
#include "io/url.h"
#include "os/directory.h"
#include "safetensors/header.h"
#include "safetensors/old_set.h"
#include "safetensors/shard_index.h"
#include "tzmark/error.h"
#include "tzmark/format.h"
#include "tzmark/safetensors.h"

namespace tzmark {
namespace {

constexpr std::string_view kJsonSuffix = ".json";
constexpr std::string_view kTensorsSuffix = ".tensors";
// Of an index with the names of its shards, the map is in the first few KiB.
constexpr std::size_t kHeadBytes = 4096;

enum class Content : std::uint8_t { kTensors, kSafetensors, kShardIndex, kUnknown };

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return lower;
}

bool has_suffix(std::string_view name, std::string_view suffix) { return lower_case(name).ends_with(suffix); }

// What the first bytes are characteristic of. No valid file begins like another kind.
Content content_of(std::span<const std::byte> head) {
  const std::string_view text = as_text(head);
  if (text.starts_with(as_text(std::as_bytes(std::span(kMagic))))) return Content::kTensors;
  if (head.size() > safetensors::kLengthBytes && text[safetensors::kLengthBytes] == '{' &&
      load<std::uint64_t>(head, 0) <= safetensors::kHeaderBytesMax) {
    return Content::kSafetensors;
  }
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  const bool is_object = begin != text.npos && text[begin] == '{';
  if (is_object && text.find("\"weight_map\"") != text.npos) return Content::kShardIndex;
  return Content::kUnknown;
}

Content content_of(File& file) {
  std::vector<std::byte> head(static_cast<std::size_t>(std::min<std::uint64_t>(kHeadBytes, file.size())));
  file.read_at(0, std::span(head));
  return content_of(head);
}

// Throws what a reader would for the beginning of a stream that no model has, before all of it is copied.
void require_model(std::span<const std::byte> head) {
  if (head.size() < kStreamHeadBytes || content_of(head.first(kHeadBytes)) != Content::kUnknown) return;
  constexpr auto kUnknownBytes = std::numeric_limits<std::uint64_t>::max();
  throw Error(ErrorCode::kHeaderMagic,
              describe_foreign(head.first(kForeignLookBytes), kUnknownBytes, ReadAs::kTensors)
                  .value_or("not a .tensors file: it does not begin with |TZR|"),
              0);
}

// Returns whether a name is that of one shard of several.
bool is_shard_name(std::string_view name) {
  const std::size_t at = name.find("-0");
  for (std::size_t dash = at; dash != name.npos; dash = name.find("-0", dash + 1)) {
    if (safetensors::is_shard_file_name(name, name.substr(0, dash))) return true;
  }
  return false;
}

std::string listed(std::span<const std::string> names) {
  constexpr std::size_t kShown = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i) text += (i == 0 ? "" : ", ") + names[i];
  return names.size() > kShown ? fmt::format("{} and {} more", text, names.size() - kShown) : text;
}

// Returns the name of the only model in a directory.
std::string find_model(const Directory& directory) {
  std::vector<std::string> models, shards;
  for (const DirectoryEntry& entry : directory.list()) {
    // The entries of a cache of downloads are links.
    if (entry.kind != EntryKind::kFile && entry.kind != EntryKind::kLink) continue;
    // What macOS stores of NAME on file systems without room for it.
    if (entry.name.starts_with("._")) continue;
    const bool is_safetensors = has_suffix(entry.name, safetensors::kSuffix);
    if (is_safetensors && is_shard_name(entry.name)) {
      shards.push_back(entry.name);
    } else if (is_safetensors || safetensors::is_index_name(entry.name) || has_suffix(entry.name, kTensorsSuffix)) {
      models.push_back(entry.name);
    }
  }
  if (models.empty() && !shards.empty()) {
    throw Error(ErrorCode::kOpenFailed,
                fmt::format("the directory contains shards ({}), but not their index, NAME{}: fetch it, too",
                            listed(shards), safetensors::kShardIndexSuffix));
  }
  if (models.empty()) {
    throw Error(ErrorCode::kOpenFailed,
                fmt::format("the directory contains no model: no NAME{}, NAME{} or NAME{}", safetensors::kSuffix,
                            safetensors::kShardIndexSuffix, kTensorsSuffix));
  }
  if (models.size() > 1) {
    std::vector<std::string> usual;
    for (const std::string& name : models) {
      if (name.starts_with("model.")) usual.push_back(name);
    }
    if (usual.size() != 1) {
      throw Error(ErrorCode::kUsage, fmt::format("the directory contains {} models: give the file to read, one of {}",
                                                 models.size(), listed(models)));
    }
    return usual.front();
  }
  return models.front();
}

}  // namespace

bool is_safetensors_name(std::string_view file_name) {
  return has_suffix(file_name, safetensors::kSuffix) || safetensors::is_index_name(file_name);
}

namespace safetensors {

bool is_index_name(std::string_view file_name) {
  return lower_case(file_name).find(".safetensors.index.") != file_name.npos && has_suffix(file_name, kJsonSuffix);
}

bool is_shard_index(File& file, std::string_view file_name) {
  const Content content = content_of(file);
  return content == Content::kShardIndex || (content == Content::kUnknown && has_suffix(file_name, kJsonSuffix));
}

}  // namespace safetensors

ModelFormat model_format(File& file, std::string_view file_name) {
  switch (content_of(file)) {
    case Content::kTensors:
      return ModelFormat::kTensors;
    case Content::kSafetensors:
    case Content::kShardIndex:
      return ModelFormat::kSafetensors;
    case Content::kUnknown:
      break;
  }
  const bool is_safetensors = is_safetensors_name(file_name) || has_suffix(file_name, kJsonSuffix);
  return is_safetensors ? ModelFormat::kSafetensors : ModelFormat::kTensors;
}

ModelFile open_model_file(const std::string& name, std::string_view io_path) {
  ModelFile model;
  model.file_name = name;
  if (name == "-") {
    model.file = spool(STDIN_FILENO, require_model);
  } else {
    std::error_code unknown;
    if (!is_url(name) && std::filesystem::is_directory(name, unknown)) {
      const Directory directory(name);
      model.file_name = directory.path(find_model(directory));
    }
    model.file = open_file(model.file_name, OpenMode::kRead, io_path);
  }
  model.format = model_format(*model.file, is_url(name) ? last_part_of_url(name) : model.file_name);
  return model;
}

}  // namespace tzmark
