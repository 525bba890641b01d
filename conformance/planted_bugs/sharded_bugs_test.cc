// Is every mistake of a reader of sharded safetensors models caught by some case of the corpus?
//
// sharded_planted.json has the number of planted bugs of each rule, and for each bug that no case catches the reason
// why. The test writes the same file anew to the build directory, without reasons for bugs that are new.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "model/text.h"
#include "runner/file_format.h"
#include "runner/manifest.h"
#include "safetensors_model/describe_sharded.h"

namespace tzmark::conformance::planted {
namespace {

using model::Json;
using safetensors::Profile;

struct Model {
  std::string index;
  std::map<std::string, std::string> shards;  // by the names that lead to them from the index
};

struct ShardedSubject {
  std::string id;
  bool is_valid = false;
  Model model;
  Json document;  // of a valid one
};

// What such a reader does with a model is what a right one does with the model that it takes it for.
struct ShardedBug {
  std::string rule;
  std::string name;  // what it does, to complete "a reader that"
  // Returns false if it refuses the model.
  std::function<bool(Model&)> misread;
};

model::Description described(const Model& model) {
  const auto open_shard = [&](const std::string& name) {
    const auto found = model.shards.find(name);
    return found == model.shards.end() ? std::nullopt : std::optional(found->second);
  };
  return safetensors::describe_sharded(std::as_bytes(std::span(model.index)), open_shard, Profile::kSpec);
}

std::string text_of(std::span<const std::byte> bytes) { return std::string(model::text_of(bytes)); }

const std::vector<ShardedSubject>& sharded_subjects() {
  static const std::vector<ShardedSubject> all = [] {
    std::vector<ShardedSubject> subjects;
    const FileFormat& format = format_of_name("safetensors");
    const Manifest manifest = load_manifest(std::filesystem::path(std::getenv("TZMARK_BUILD_DIR")) / format.corpus);
    for (const Case& item : manifest.cases) {
      if (item.layout != format.sharded_layout) continue;
      ShardedSubject subject{
          item.id, item.verdict == Verdict::kValid, {text_of(read_case_file(manifest, item)), {}}, {}};
      for (const Shard& shard : read_shards(manifest, item)) {
        subject.model.shards[shard.name] = text_of(*shard.content);
        if (item.directory_placeholder.empty()) continue;
        subject.model.shards[item.directory_placeholder + "/" + shard.name] = text_of(*shard.content);
      }
      if (subject.is_valid) subject.document = described(subject.model).document;
      subjects.push_back(std::move(subject));
    }
    return subjects;
  }();
  return all;
}

// Whether the suite sees that a reader takes a model for another one.
bool is_caught_by(const ShardedSubject& subject, const ShardedBug& bug) {
  Model model = subject.model;
  if (!bug.misread(model)) return subject.is_valid;
  try {
    const model::Description description = described(model);
    if (description.document.is_null()) return subject.is_valid;
    return !subject.is_valid || description.document != subject.document;
  } catch (const std::runtime_error&) {
    // It finds no shard of that name, and says so.
    return subject.is_valid;
  }
}

bool is_caught(const ShardedBug& bug) {
  return std::ranges::any_of(sharded_subjects(),
                             [&](const ShardedSubject& subject) { return is_caught_by(subject, bug); });
}

using Bugs = std::vector<ShardedBug>;

// Bugs with the text of an index, as it is written.
void add_texts(Bugs& bugs) {
  const auto rewrites = [&bugs](const std::string& name, auto&& rewrite) {
    bugs.push_back({"ST-016", name, [rewrite](Model& model) {
                      model.index = rewrite(model.index);
                      return true;
                    }});
  };
  const auto cut_behind = [](const std::string& index, char last) { return index.substr(0, index.rfind(last) + 1); };
  rewrites("ignores what follows the object of the index", [=](const std::string& index) {
    const std::size_t two = index.find("} {");
    return two == index.npos ? cut_behind(index, '}') : index.substr(0, two + 1);
  });
  rewrites("skips NUL behind the index", [](std::string index) {
    std::erase(index, '\0');
    return index;
  });
  rewrites("skips a byte order mark",
           [](const std::string& index) { return index.starts_with("\xef\xbb\xbf") ? index.substr(3) : index; });
  rewrites("ignores bytes that are not UTF-8", [](std::string index) {
    std::erase(index, '\xff');
    return index;
  });
  const auto replaces = [&](const std::string& name, const std::string& from, const std::string& to) {
    rewrites(name, [from, to](std::string index) {
      for (std::size_t at = 0; (at = index.find(from, at)) != index.npos; at += to.size()) {
        index.replace(at, from.size(), to);
      }
      return index;
    });
  };
  replaces("takes comments in an index", " /* */", "");
  replaces("takes a comma too many in an index", ",}", "}");
  replaces("takes NaN in an index", "NaN", "0");
  replaces("takes control characters in an index", "\x01", "1");
  replaces("takes half a surrogate pair in an index", "\\ud800", "x");
  replaces("takes null for a weight_map", R"("weight_map": null)", R"("weight_map": {})");
  replaces("takes a list for a weight_map", R"("weight_map": [])", R"("weight_map": {})");
  replaces("takes a string for a weight_map", R"("weight_map": "x")", R"("weight_map": {})");
  replaces("finds weight_map in any case", "Weight_Map", "weight_map");
  replaces("takes an index of any JSON value", "[]\n", R"({"weight_map": {}})");
  replaces("takes null for an index", "null\n", R"({"weight_map": {}})");
  replaces("takes an index without weight_map for an empty one", R"({"metadata": {}})", R"({"weight_map": {}})");
  replaces("takes the weight_map of any object in it", R"({"x": {"weight_map": {}}})", R"({"weight_map": {}})");
  replaces("takes the first of two maps", R"(, "weight_map": {}})", "}");
  replaces("takes null for the name of a file", R"({"a": null})", "{}");
  replaces("takes a number for the name of a file", R"({"a": 1})", "{}");
  replaces("takes a list for the name of a file", R"({"a": ["x"]})", "{}");
  replaces("takes an object for the name of a file", R"({"a": {}})", "{}");
  const auto refuses = [&bugs](const std::string& name, auto&& is_refused) {
    bugs.push_back({"ST-016", name, [is_refused](Model& model) { return !is_refused(model); }});
  };
  refuses("looks for weight_map in the first 4 KiB only",
          [](const Model& model) { return model.index.find("weight_map") > 4096; });
  refuses("refuses an index without metadata",
          [](const Model& model) { return model.index.find("\"metadata\": {") == std::string::npos; });
  refuses("refuses unknown keys", [](const Model& model) { return model.index.find("\"x\"") != std::string::npos; });
  refuses("refuses escapes in an index",
          [](const Model& model) { return model.index.find("\\u") != std::string::npos; });
  refuses("refuses tabs in an index", [](const Model& model) { return model.index.find('\t') != std::string::npos; });
  refuses("refuses white space before an index", [](const Model& model) { return !model.index.starts_with('{'); });
  refuses("refuses an index without tensors", [](const Model& model) { return model.shards.empty(); });
  refuses("refuses more than 16 shards", [](const Model& model) { return model.shards.size() > 16; });
  refuses("refuses one shard alone", [](const Model& model) { return model.shards.size() == 1; });
  refuses("refuses a total size that is not that of the tensors",
          [](const Model& model) { return model.index.find("\"total_size\": 1}") != std::string::npos; });
}

// A change of the map of an index that is a map of strings; others stay as they are.
void change_map(Model& model, const std::function<void(Json& map)>& change) {
  Json index = Json::parse(model.index, nullptr, false);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) return;
  if (!std::ranges::all_of(index["weight_map"], [](const Json& file) { return file.is_string(); })) return;
  const Json before = index;
  change(index["weight_map"]);
  if (index != before) model.index = index.dump();
}

// Bugs with the names of files.
void add_file_names(Bugs& bugs) {
  // opened: the name by which such a reader opens the file; nothing if it refuses it.
  const auto opens = [&bugs](const std::string& name, const std::function<std::string(const std::string&)>& opened) {
    bugs.push_back({"ST-016", name, [opened](Model& model) {
                      change_map(model, [&](Json& map) {
                        for (Json& file : map) {
                          const std::string found = opened(file.get<std::string>());
                          if (!model.shards.contains(found)) continue;
                          const std::string alias = fmt::format("alias-{}", model.shards.size());
                          model.shards[alias] = model.shards[found];
                          file = alias;
                        }
                      });
                      return true;
                    }});
  };
  const auto normal = [](const std::string& name) { return std::filesystem::path(name).lexically_normal().string(); };
  opens("opens files of other directories", normal);
  opens("opens files of directories below",
        [=](const std::string& name) { return name.find("..") == name.npos ? normal(name) : name; });
  opens("follows the absolute path of a file",
        [](const std::string& name) { return name.starts_with('/') ? name : ""; });
  opens("looks for .. only at the beginning of a name",
        [=](const std::string& name) { return name.starts_with("..") ? name : normal(name); });
  opens("looks for ../ only",
        [=](const std::string& name) { return name.find("../") == name.npos ? normal(name) : ""; });
  opens("takes a backslash in a name of a file",
        [](const std::string& name) { return name.find('\\') == name.npos ? "" : name; });
  opens("ends a name of a file at a NUL", [](const std::string& name) { return name.substr(0, name.find('\0')); });
  opens("takes the last part of the name of a file", [](const std::string& name) {
    return name.substr(name.find_last_of('/') == name.npos ? 0 : name.find_last_of('/') + 1);
  });
  opens("ignores a slash at the end of the name of a file",
        [](const std::string& name) { return name.ends_with('/') ? name.substr(0, name.size() - 1) : name; });
  const auto refuses = [&bugs](const std::string& name, const std::function<bool(const std::string&)>& is_refused) {
    bugs.push_back({"ST-016", name, [is_refused](Model& model) {
                      bool all = true;
                      change_map(model, [&](Json& map) {
                        for (const Json& file : map) all = all && !is_refused(file.get<std::string>());
                      });
                      return all;
                    }});
  };
  refuses("refuses two dots in the name of a file",
          [](const std::string& name) { return name.find("..") != name.npos; });
  refuses("refuses the name of a hidden file", [](const std::string& name) { return name.starts_with('.'); });
  refuses("refuses a space in the name of a file", [](const std::string& name) { return name.find(' ') != name.npos; });
  refuses("refuses a percent sign in the name of a file",
          [](const std::string& name) { return name.find('%') != name.npos; });
  refuses("refuses the name of a file that begins with a dash",
          [](const std::string& name) { return name.starts_with('-'); });
  refuses("refuses the name of a file that begins with a tilde",
          [](const std::string& name) { return name.starts_with('~'); });
  refuses("refuses a shard of another suffix",
          [](const std::string& name) { return !name.empty() && !name.ends_with(".safetensors"); });
}

// Bugs with the names of tensors. names: of a shard, as a right reader finds them.
std::vector<std::string> names_in(const std::string& shard) {
  std::vector<std::string> names;
  const auto description = safetensors::describe(std::as_bytes(std::span(shard)), Profile::kSpec);
  if (!description.document.is_object()) return names;
  for (const Json& tensor : description.document["tensors"]) names.push_back(tensor["path"][0]);
  return names;
}

void add_tensor_names(Bugs& bugs) {
  const auto changes = [&bugs](const std::string& rule, const std::string& name,
                               const std::function<void(Model&, Json & map)>& change) {
    bugs.push_back({rule, name, [change](Model& model) {
                      change_map(model, [&](Json& map) { change(model, map); });
                      return true;
                    }});
  };
  changes("ST-017", "ignores tensors that their shard lacks", [](Model& model, Json& map) {
    Json kept = Json::object();
    for (const auto& [name, file] : map.items()) {
      const auto shard = model.shards.find(file);
      const auto names = shard == model.shards.end() ? std::vector<std::string>() : names_in(shard->second);
      if (names.empty() || std::ranges::find(names, name) != names.end()) kept[name] = file;
    }
    map = kept;
  });
  changes("ST-017", "returns tensors that the map lacks", [](Model& model, Json& map) {
    std::set<std::string> files;
    for (const Json& file : map) files.insert(file);
    for (const std::string& file : files) {
      if (!model.shards.contains(file)) continue;
      for (const std::string& name : names_in(model.shards[file])) {
        if (!map.contains(name)) map[name] = file;
      }
    }
  });
  changes("ST-017", "looks for a tensor in any shard", [](Model& model, Json& map) {
    for (const auto& [file, content] : model.shards) {
      for (const std::string& name : names_in(content)) {
        if (map.contains(name)) map[name] = file;
      }
    }
  });
  changes("ST-017", "compares names of tensors without regard to case", [](Model& model, Json& map) {
    for (const auto& [file, content] : model.shards) {
      for (const std::string& name : names_in(content)) {
        const auto lower = [](std::string text) {
          std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
          return text;
        };
        Json kept = Json::object();
        for (const auto& [mapped, of] : map.items()) kept[lower(mapped) == lower(name) ? name : mapped] = of;
        map = kept;
      }
    }
  });
  changes("ST-017", "composes names of tensors", [](Model&, Json& map) {
    Json kept = Json::object();
    for (const auto& [name, file] : map.items()) kept[name == "e\xcc\x81" ? "\xc3\xa9" : name] = file;
    map = kept;
  });
  changes("ST-017", "reads the first shard only", [](Model& model, Json& map) {
    if (model.shards.size() < 2) return;
    Json kept = Json::object();
    for (const auto& [name, file] : map.items()) {
      if (file == model.shards.begin()->first) kept[name] = file;
    }
    map = kept;
  });
}

using Members = std::vector<std::pair<std::string, std::string>>;

// The tensors and files of an index with one map, in the order of its text; empty for others.
Members members_of_map(const std::string& index) {
  Members members;
  std::size_t maps = 0;
  std::string name;
  bool in_map = false;
  const auto note = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::key && depth == 1) {
      in_map = parsed == "weight_map";
      maps += in_map ? 1 : 0;
    }
    if (event == Json::parse_event_t::key && depth == 2) name = parsed;
    if (event == Json::parse_event_t::value && depth == 2 && in_map && parsed.is_string()) {
      members.emplace_back(name, parsed);
    }
    return true;
  };
  const bool is_json = !Json::parse(index, note, false).is_discarded();
  return is_json && maps == 1 ? members : Members();
}

// Bugs with a tensor that the map has twice.
void add_duplicates(Bugs& bugs) {
  const auto takes = [&bugs](const std::string& name, bool is_first) {
    bugs.push_back({"ST-016", name, [is_first](Model& model) {
                      Json map = Json::object();
                      const Members members = members_of_map(model.index);
                      for (const auto& [tensor, file] : members) {
                        if (!is_first || !map.contains(tensor)) map[tensor] = file;
                      }
                      if (map.size() < members.size()) model.index = Json{{"weight_map", map}}.dump();
                      return true;
                    }});
  };
  takes("takes the first of two files of a tensor", true);
  takes("takes the last of two files of a tensor", false);
}

Bugs all_sharded_bugs() {
  Bugs bugs;
  add_texts(bugs);
  add_file_names(bugs);
  add_tensor_names(bugs);
  add_duplicates(bugs);
  return bugs;
}

TEST(ShardedBugs, EachIsCaughtOrExplained) {
  std::ifstream committed(std::string(std::getenv("TZMARK_SOURCE_DIR")) +
                          "/conformance/planted_bugs/sharded_planted.json");
  const Json before = Json::parse(committed, nullptr, false);
  Json now = Json::object();
  std::set<std::string> names;
  std::size_t explained = 0;
  for (const ShardedBug& bug : all_sharded_bugs()) {
    EXPECT_TRUE(names.insert(bug.name).second) << bug.name << " is planted twice";
    if (!now.contains(bug.rule)) now[bug.rule] = {{"planted", 0}, {"not_caught", Json::object()}};
    Json& rule = now[bug.rule];
    rule["planted"] = rule["planted"].get<int>() + 1;
    if (is_caught(bug)) continue;
    const Json known = before.value(bug.rule, Json::object()).value("not_caught", Json::object());
    const std::string reason = known.value(bug.name, "");
    rule["not_caught"][bug.name] = reason;
    EXPECT_FALSE(reason.empty()) << bug.rule << ": a reader that " << bug.name << " is caught by no case";
    ++explained;
  }
  std::ofstream(std::string(std::getenv("TZMARK_BUILD_DIR")) + "/sharded_planted.json") << now.dump(1) << '\n';
  EXPECT_EQ(now, before) << "as it is now: sharded_planted.json in the build directory";
  EXPECT_GE(names.size(), 50U);
  fmt::print("{} planted bugs: {} caught, {} explained\n", names.size(), names.size() - explained, explained);
}

TEST(ShardedBugs, AReaderWithoutOneIsNotCaught) {
  EXPECT_FALSE(is_caught({"", "makes no mistake", [](Model&) { return true; }}));
  EXPECT_TRUE(is_caught({"", "refuses everything", [](Model&) { return false; }}));
}

}  // namespace
}  // namespace tzmark::conformance::planted
