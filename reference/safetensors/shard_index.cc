// Parsing and serializing the index of shards.
#include "safetensors/shard_index.h"

#include <fmt/format.h>

#include <algorithm>

#include "bytes/requires.h"
#include "bytes/utf8.h"
#include "safetensors/json_events.h"

namespace tzmark::safetensors {
namespace {

constexpr std::string_view kMapKey = "weight_map", kMetadataKey = "metadata", kTotalKey = "total_size";

[[noreturn]] void fail(std::size_t at, const std::string& detail) { throw Error(ErrorCode::kStShardIndex, detail, at); }

// Receives the tokens of an index, visits the pairs of its map, and collects the texts of its metadata. Ignores other
// keys of the object.
template <typename Visitor>
class IndexHandler {
 public:
  IndexHandler(std::map<std::string, std::string>& metadata, Visitor visit)
      : metadata_(metadata), visit_(std::move(visit)) {}

  bool map_seen() const { return map_seen_; }

  void operator()(const JsonToken& token) {
    const bool opens = token.type == JsonType::kBeginObject || token.type == JsonType::kBeginArray;
    const bool closes = token.type == JsonType::kEndObject || token.type == JsonType::kEndArray;
    if (depth_ == 0 && token.type != JsonType::kBeginObject) fail(token.at, "the index is not an object");
    if (closes) {
      --depth_;
      in_map_ = in_map_ && depth_ >= 2;
      in_metadata_ = in_metadata_ && depth_ >= 2;
    } else if (depth_ == 1) {
      on_value(token);
    } else if (in_map_) {
      on_map(token);
    } else if (in_metadata_ && depth_ == 2) {
      if (token.type == JsonType::kKey) name_ = token.text;
      if (token.type == JsonType::kString && name_ != kTotalKey) metadata_.insert_or_assign(name_, token.text);
    }
    if (opens) ++depth_;
  }

 private:
  void on_value(const JsonToken& token) {
    if (token.type == JsonType::kKey) {
      map_is_next_ = token.text == kMapKey;
      metadata_is_next_ = token.text == kMetadataKey;
      if (map_is_next_ && map_seen_) fail(token.at, "duplicate key 'weight_map'");
      map_seen_ = map_seen_ || map_is_next_;
    } else if (map_is_next_) {
      if (token.type != JsonType::kBeginObject) fail(token.at, "weight_map is not an object");
      in_map_ = true;
    } else {
      in_metadata_ = metadata_is_next_ && token.type == JsonType::kBeginObject;
    }
  }

  void on_map(const JsonToken& token) {
    if (token.type == JsonType::kKey) {
      name_ = token.text;
      name_at_ = token.at;
    } else if (token.type == JsonType::kString) {
      check_file_name(token);
      visit_(name_, name_at_, token.text);
    } else {
      fail(token.at, fmt::format("the file of '{}' is not a string", name_));
    }
  }

  static void check_file_name(const JsonToken& token) {
    // A backslash is a separator on other systems, where the model could refer to other directories.
    const bool leaves = token.text.find_first_of(std::string_view("/\\\0", 3)) != token.text.npos;
    if (leaves || token.text.empty() || token.text == "." || token.text == "..") {
      fail(token.at, fmt::format("'{}' is not the name of a file in the directory of the index", token.text));
    }
  }

  std::map<std::string, std::string>& metadata_;
  Visitor visit_;
  unsigned depth_ = 0;  // number of open arrays and objects
  bool map_is_next_ = false, metadata_is_next_ = false, in_metadata_ = false;
  bool map_seen_ = false;
  bool in_map_ = false;
  std::string name_;
  std::size_t name_at_ = 0;
};

}  // namespace

ShardIndex::ShardIndex(std::string_view json) {
  TZMARK_REQUIRES(json.size() <= kShardIndexBytesMax);
  if (const auto at = find_invalid_utf8(json)) fail(*at, "this is not UTF-8");
  std::size_t begin = 0;
  while (begin < json.size() && is_white_space(json[begin])) ++begin;
  if (begin == json.size() || json[begin] != '{') fail(begin, "the index does not begin with an opening brace");

  std::map<std::string, std::uint32_t, std::less<>> file_numbers;
  IndexHandler handler(metadata_, [&](std::string_view name, std::size_t at, std::string_view file) {
    auto found = file_numbers.find(file);
    if (found == file_numbers.end()) {
      found = file_numbers.emplace(file, static_cast<std::uint32_t>(file_numbers.size())).first;
    }
    tensors_.push_back({static_cast<std::uint32_t>(names_.size()), static_cast<std::uint32_t>(name.size()),
                        found->second, static_cast<std::uint32_t>(at)});
    names_ += name;
  });
  JsonEvents events(json, 0, ErrorCode::kStShardIndex, handler);
  for (std::size_t at = events.walk(begin); at < json.size(); ++at) {
    if (!is_white_space(json[at])) fail(at, "more than one object");
  }
  if (!handler.map_seen()) fail(0, "there is no weight_map");

  // Renumbers files from order of appearance to order of names.
  std::vector<std::uint32_t> sorted_number(file_numbers.size());
  for (const auto& [file, number] : file_numbers) {
    sorted_number[number] = static_cast<std::uint32_t>(files_.size());
    files_.push_back(file);
  }
  for (Tensor& tensor : tensors_) tensor.file = sorted_number[tensor.file];
  std::ranges::sort(tensors_, {}, [&](const Tensor& tensor) { return std::pair(name(tensor), tensor.at); });
  const auto twice = std::ranges::adjacent_find(tensors_, {}, [&](const Tensor& tensor) { return name(tensor); });
  if (twice != tensors_.end()) fail(std::next(twice)->at, fmt::format("weight_map contains '{}' twice", name(*twice)));
}

const ShardIndex::Tensor* ShardIndex::find(std::string_view name) const {
  const auto name_of = [&](const Tensor& tensor) { return this->name(tensor); };
  const auto found = std::ranges::lower_bound(tensors_, name, {}, name_of);
  return found != tensors_.end() && name_of(*found) == name ? &*found : nullptr;
}

std::string serialize_shard_index(std::uint64_t total_bytes, const std::map<std::string_view, std::string_view>& files,
                                  const std::map<std::string, std::string>& metadata) {
  std::string text = "{\n  \"metadata\": {\n";
  for (const auto& [key, value] : metadata) {
    if (key == kTotalKey) continue;
    text += fmt::format("    {}: {},\n", nlohmann::json(key).dump(), nlohmann::json(value).dump());
  }
  text += fmt::format("    \"{}\": {}\n  }},\n  \"{}\": {{", kTotalKey, total_bytes, kMapKey);
  std::string_view separator = "\n";
  for (const auto& [name, file] : files) {
    text += fmt::format("{}    {}: {}", separator, nlohmann::json(name).dump(), nlohmann::json(file).dump());
    separator = ",\n";
  }
  return text + (files.empty() ? "}\n}\n" : "\n  }\n}\n");
}

std::string shard_file_name(std::string_view base_name, std::size_t number, std::size_t count) {
  return fmt::format("{}-{:05}-of-{:05}{}", base_name, number, count, kSuffix);
}

}  // namespace tzmark::safetensors
