// Profiles: strict parsing, and the choice by the page cache; see tzmark/profile.h.
#include "tzmark/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <vector>

#include "bytes/json_problem.h"
#include "io/page_cache.h"
#include "io/stream.h"
#include "tzmark/descriptor.h"
#include "tzmark/error.h"
#include "tzmark/io.h"

namespace tzmark {
namespace {

using nlohmann::json;

constexpr int kProfileSchema = 1;
constexpr std::uint64_t kLeastBlockBytes = 4096;
constexpr std::uint64_t kMostBlockBytes = 1 << 30;
constexpr std::uint64_t kMostQueueDepth = 4096;
constexpr std::uint64_t kMostThreads = 1024;

[[noreturn]] void refuse_profile(const std::string& what) { throw Error(ErrorCode::kUsage, "not a profile: " + what); }

// Parses one value. The library would keep the last of two equal members, skip a byte order mark, and end at a zero.
json parse_strictly(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) refuse_profile("it is empty");
  if (text.find('\0') != std::string_view::npos || text.starts_with("\xef\xbb\xbf"))
    refuse_profile("it is not JSON text");
  constexpr int kDepthMax = 8;
  std::vector<std::set<std::string>> names;
  const auto check = [&](int depth, json::parse_event_t event, json& value) {
    if (depth > kDepthMax) refuse_profile(fmt::format("it nests deeper than {}", kDepthMax));
    if (event == json::parse_event_t::object_start) names.emplace_back();
    if (event == json::parse_event_t::object_end) names.pop_back();
    if (event == json::parse_event_t::key && !names.back().insert(value.get<std::string>()).second) {
      refuse_profile(fmt::format("the member '{}' is there twice", value.get<std::string>()));
    }
    return true;
  };
  try {
    return json::parse(text, check);
  } catch (const json::exception& error) {
    refuse_profile(json_problem(error));
  }
}

void require_members(const json& object, const std::string& where, const std::set<std::string_view>& known) {
  if (!object.is_object()) refuse_profile(fmt::format("{} is not an object", where));
  for (const auto& [name, value] : object.items()) {
    if (!known.contains(name)) refuse_profile(fmt::format("{} has an unknown member '{}'", where, name));
  }
}

std::string text_of(const json& value, const std::string& where) {
  if (!value.is_string()) refuse_profile(fmt::format("{} is not a string", where));
  return value.get<std::string>();
}

std::uint64_t number_of(const json& value, const std::string& where, std::uint64_t least, std::uint64_t most) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() < least || value.get<std::uint64_t>() > most) {
    refuse_profile(fmt::format("{} is not a whole number from {} to {}", where, least, most));
  }
  return value.get<std::uint64_t>();
}

std::string path_name_of(const json& value, const std::string& where) {
  std::string name = text_of(value, where);
  const auto paths = io_paths();
  if (name != "auto" && std::ranges::find(paths, name, &IoPath::name) == paths.end()) {
    refuse_profile(fmt::format("{}: there is no I/O path '{}'", where, name));
  }
  return name;
}

ProfileSettings settings_of(const json& object, const std::string& task) {
  require_members(object, task, {"io", "block_bytes", "queue_depth", "threads", "pages"});
  if (object.empty()) refuse_profile(fmt::format("{} sets nothing", task));
  const auto where = [&](const char* name) { return fmt::format("{} of {}", name, task); };
  const auto number = [&](const char* name, std::uint64_t least, std::uint64_t most) {
    return number_of(object[name], where(name), least, most);
  };
  ProfileSettings settings;
  if (object.contains("io")) settings.io_path = path_name_of(object["io"], where("io"));
  if (object.contains("block_bytes")) settings.block_bytes = number("block_bytes", kLeastBlockBytes, kMostBlockBytes);
  if (object.contains("queue_depth")) {
    settings.queue_depth = static_cast<unsigned>(number("queue_depth", 0, kMostQueueDepth));
  }
  if (object.contains("threads")) settings.threads = static_cast<unsigned>(number("threads", 0, kMostThreads));
  if (object.contains("pages")) {
    const std::string pages = text_of(object["pages"], where("pages"));
    if (pages != "huge" && pages != "small")
      refuse_profile(fmt::format("{} is neither huge nor small", where("pages")));
    settings.pages = pages == "huge" ? HostMemory::Pages::kHuge : HostMemory::Pages::kSmall;
  }
  return settings;
}

json json_of(const ProfileSettings& settings) {
  json object = json::object();
  if (settings.io_path) object["io"] = *settings.io_path;
  if (settings.block_bytes) object["block_bytes"] = *settings.block_bytes;
  if (settings.queue_depth) object["queue_depth"] = *settings.queue_depth;
  if (settings.threads) object["threads"] = *settings.threads;
  if (settings.pages) object["pages"] = *settings.pages == HostMemory::Pages::kHuge ? "huge" : "small";
  return object;
}

}  // namespace

ProfileSettings Profile::loading(const std::string& file_name) const {
  if (!load_cold) return load_warm.value_or(ProfileSettings());
  if (!load_warm) return *load_cold;
  return file_name == "-" || is_cached(file_name).value_or(false) ? *load_warm : *load_cold;
}

ProfileSettings Profile::saving() const { return save.value_or(ProfileSettings()); }

Profile parse_profile(std::string_view text) {
  if (text.size() > kProfileBytesMax) refuse_profile(fmt::format("it has more than {} bytes", kProfileBytesMax));
  const json document = parse_strictly(text);
  require_members(document, "the profile", {"schema_version", "kind", "note", "load-warm", "load-cold", "save"});
  if (!document.contains("kind") || document["kind"] != "profile") refuse_profile("its kind is not \"profile\"");
  if (!document.contains("schema_version") || document["schema_version"] != kProfileSchema) {
    refuse_profile(fmt::format("its schema_version is not {}", kProfileSchema));
  }
  Profile profile;
  if (document.contains("note")) profile.note = text_of(document["note"], "note");
  const auto task = [&](const char* name, std::optional<ProfileSettings>& settings) {
    if (document.contains(name)) settings = settings_of(document[name], name);
  };
  task("load-warm", profile.load_warm);
  task("load-cold", profile.load_cold);
  task("save", profile.save);
  if (!profile.load_warm && !profile.load_cold && !profile.save) {
    refuse_profile("it has none of load-warm, load-cold and save");
  }
  return profile;
}

std::string serialize(const Profile& profile) {
  nlohmann::ordered_json document = {{"schema_version", kProfileSchema}, {"kind", "profile"}};
  if (!profile.note.empty()) document["note"] = profile.note;
  if (profile.load_warm) document["load-warm"] = json_of(*profile.load_warm);
  if (profile.load_cold) document["load-cold"] = json_of(*profile.load_cold);
  if (profile.save) document["save"] = json_of(*profile.save);
  return document.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

Profile load_profile(int descriptor) {
  std::string text(kProfileBytesMax + 1, '\0');
  std::size_t got = 0;
  while (got < text.size()) {
    const std::size_t more = read_stream(descriptor, std::as_writable_bytes(std::span(text).subspan(got)));
    if (more == 0) break;
    got += more;
  }
  return parse_profile(std::string_view(text).substr(0, got));
}

Profile load_profile(const std::string& file_name) { return load_profile(open_stream(file_name).get()); }

}  // namespace tzmark
