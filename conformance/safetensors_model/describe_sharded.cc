// Reading a safetensors model of several files for the suite; see describe_sharded.h.
#include "safetensors_model/describe_sharded.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

#include "model/text.h"
#include "safetensors_model/json_reader.h"

namespace tzmark::conformance::safetensors {
namespace {

using model::Defect;
using model::Description;
using model::Json;

constexpr std::string_view kIndexRule = "ST-016", kNamesRule = "ST-017";
constexpr std::string_view kMap = "weight_map";

// Thrown at the first defect.
struct Refused {
  Defect defect;
};

[[noreturn]] void refuse(std::string_view rule, std::uint64_t offset, std::string text) {
  Defect defect;
  defect.rule = std::string(rule);
  defect.offset = offset;
  defect.structure = {"file"};
  defect.wanted = model::Words{std::move(text)};
  throw Refused{std::move(defect)};
}

// A tensor as the map has it.
struct Mapped {
  std::string file;
  std::size_t offset = 0;  // of its name
};

class ShardedReading {
 public:
  ShardedReading(model::Bytes index, const OpenShard& open_shard, Profile profile, const std::set<std::string>& without)
      : text_(model::text_of(index)), open_shard_(open_shard), profile_(profile), without_(without) {
    result_.layout = "safetensors-sharded";
  }

  Description run() {
    try {
      read_index();
      read_shards();
    } catch (Refused& refused) {
      result_.defects.push_back(std::move(refused.defect));
      return std::move(result_);
    }
    Json tensors = Json::array();
    for (auto& [name, tensor] : tensors_) tensors.push_back(std::move(tensor));
    result_.document = {{"data_version", nullptr},
                        {"layout", "safetensors-sharded"},
                        {"encrypted", false},
                        {"tensors", std::move(tensors)}};
    return std::move(result_);
  }

 private:
  bool checks(std::string_view rule) const { return !without_.contains(std::string(rule)); }

  void read_index() {
    if (!model::is_utf8(text_)) refuse(kIndexRule, 0, "the index is not UTF-8");
    JsonReader json(text_);
    json.skip_space();
    if (json.is_at_end() || text_[json.at()] != '{') refuse(kIndexRule, json.at(), "the index is no object");
    bool has_map = false;
    try {
      std::string key;
      json.object(
          [&](std::string name, std::size_t key_at) {
            key = std::move(name);
            if (key == kMap && std::exchange(has_map, true) && checks(kIndexRule)) {
              refuse(kIndexRule, key_at, "the index has weight_map twice");
            }
          },
          [&] { key == kMap ? read_map(json) : json.any_value(); });
      json.skip_space();
    } catch (const NotJson& error) {
      refuse(kIndexRule, error.offset, "the index is no JSON: " + error.what);
    }
    if (!json.is_at_end() && checks(kIndexRule)) {
      refuse(kIndexRule, json.at(), "something other than white space follows the object of the index");
    }
    if (!has_map) refuse(kIndexRule, 0, "the index has no weight_map");
  }

  void read_map(JsonReader& json) {
    if (json.next() != '{') refuse(kIndexRule, json.at(), "weight_map is no object");
    std::string name;
    std::size_t name_at = 0;
    json.object(
        [&](std::string key, std::size_t key_at) {
          if (map_.contains(key) && checks(kIndexRule)) {
            refuse(kIndexRule, key_at, fmt::format("weight_map has {} twice", model::in_quotes(key)));
          }
          name = std::move(key);
          name_at = key_at;
        },
        [&] {
          const std::size_t file_at = json.at();
          if (json.next() != '"') refuse(kIndexRule, file_at, "the name of a file is no string");
          std::string file = json.string();
          const bool leaves = file.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos;
          if (leaves || file.empty() || file == "." || file == "..") {
            refuse(kIndexRule, file_at, fmt::format("{} is no name of a file", model::in_quotes(file)));
          }
          map_[name] = {std::move(file), name_at};
        });
  }

  void read_shards() {
    std::set<std::string> files;
    for (const auto& [name, mapped] : map_) files.insert(mapped.file);
    for (const std::string& file : files) read_shard(file);
    for (const auto& [name, mapped] : map_) {
      if (tensors_.contains(name) || !checks(kNamesRule)) continue;
      refuse(kNamesRule, mapped.offset, fmt::format("{} has no {}", mapped.file, model::in_quotes(name)));
    }
  }

  void read_shard(const std::string& file) {
    const std::optional<std::string> content = open_shard_(file);
    if (!content) throw std::runtime_error(file + " is not in the directory of the index");
    Description shard = describe(std::as_bytes(std::span(*content)), profile_, without_);
    const auto defect = std::ranges::find_if(shard.defects, model::refuses_decode);
    if (defect != shard.defects.end()) {
      // Its offset is in this file.
      defect->wanted = model::Words{fmt::format("{}: {}", file, model::sentence_of(*defect))};
      defect->clause = model::Clause::kStated;
      defect->structure = {};
      throw Refused{std::move(*defect)};
    }
    // Without a check that no reader can go on without, it has no content.
    if (shard.document.is_null()) return;
    for (Json& tensor : shard.document.at("tensors")) {
      auto name = tensor.at("path").at(0).get<std::string>();
      const auto mapped = map_.find(name);
      if (mapped == map_.end() || mapped->second.file != file) {
        if (!checks(kNamesRule)) continue;
        refuse(kNamesRule, offset_of_name(shard, name),
               fmt::format("the map does not have {} in {}", model::in_quotes(name), file));
      }
      tensors_.emplace(std::move(name), std::move(tensor));
    }
  }

  // In its shard.
  static std::uint64_t offset_of_name(const Description& shard, const std::string& name) {
    const auto field = std::ranges::find_if(shard.fields, [&](const model::Field& each) {
      return each.name == "name" && each.value == model::in_quotes(name);
    });
    return field == shard.fields.end() ? 0 : field->offset;
  }

  const std::string_view text_;
  const OpenShard& open_shard_;
  const Profile profile_;
  const std::set<std::string>& without_;
  std::map<std::string, Mapped> map_;    // by the names of tensors
  std::map<std::string, Json> tensors_;  // canonical, by their names
  Description result_;
};

}  // namespace

Description describe_sharded(model::Bytes index, const OpenShard& open_shard, Profile profile,
                             const std::set<std::string>& without) {
  return ShardedReading(index, open_shard, profile, without).run();
}

}  // namespace tzmark::conformance::safetensors
