// commit.json and the manifests of ranks: who wrote what.
#include <algorithm>
#include <charconv>
#include <set>
#include <span>
#include <utility>

#include "bytes/cursor.h"
#include "bytes/digest.h"
#include "bytes/utf8.h"
#include "checkpoint/json.h"
#include "checkpoint/names.h"
#include "checkpoint/records.h"
#include "checkpoint/sharding_json.h"

namespace tzmark::checkpoint {
namespace {

constexpr std::uint32_t kVersion = 1;
constexpr const char* kOwnDigest = "crc64_of_this";

std::string hex(std::uint64_t crc64) { return fmt::format("{:016x}", crc64); }

std::uint64_t parse_hex(const std::string& text, ErrorCode code) {
  const auto digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (text.size() != 16 || !std::ranges::all_of(text, digit)) throw Error(code, "a crc64 is not 16 hex digits");
  return std::stoull(text, nullptr, 16);
}

// The spelling without blanks, keys in order, so that equal content has an equal digest.
std::uint64_t digest_of(const Json& json) { return crc64(0, as_bytes(json.dump())); }

Json files_json(const std::vector<FileRecord>& files) {
  Json array = Json::array();
  for (const FileRecord& file : files) {
    array.push_back({{"name", file.name}, {"bytes", file.digest.bytes}, {"crc64", hex(file.digest.crc64)}});
  }
  return array;
}

// NAME, or rank_N/NAME: a record must not lead out of its checkpoint.
bool is_file_name(std::string_view name) {
  const std::size_t slash = name.find('/');
  if (slash != std::string_view::npos) {
    if (!name.starts_with("rank_")) return false;
    name.remove_prefix(slash + 1);
  }
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

std::vector<FileRecord> files_of(const Json& array, ErrorCode code) {
  if (!array.is_array()) throw Error(code, "files is not a list");
  std::vector<FileRecord> files;
  std::set<std::string> names;
  for (const Json& entry : array) {
    FileRecord file{
        string_member(entry, "name", code),
        {unsigned_member<std::uint64_t>(entry, "bytes", code), parse_hex(string_member(entry, "crc64", code), code)}};
    if (!is_file_name(file.name)) throw Error(code, fmt::format("'{}' is no name of a file in it", file.name));
    if (!names.insert(file.name).second) throw Error(code, fmt::format("{} is listed twice", file.name));
    files.push_back(std::move(file));
  }
  return files;
}

void check_version(const Json& json, ErrorCode code) {
  const auto version = unsigned_member<std::uint32_t>(json, "version", code);
  if (version != kVersion) throw Error(code, fmt::format("it is of version {}, and {} is known", version, kVersion));
}

// What the file says must hash to what it says that it hashes to.
void check_own_digest(Json json, ErrorCode code) {
  const std::uint64_t stated = parse_hex(string_member(json, kOwnDigest, code), code);
  json.erase(kOwnDigest);
  if (digest_of(json) != stated) throw Error(code, "its content is not what its own digest says");
}

// JSON is UTF-8, and names of directories are any bytes: one that is not UTF-8 is recorded in hex.
constexpr const char* kNameHex = "name_hex";

std::string name_from_hex(const std::string& hex, ErrorCode code) {
  std::string name;
  for (std::size_t at = 0; at < hex.size(); at += 2) {
    unsigned byte = 0;
    const char* const begin = hex.data() + at;
    const char* const end = hex.data() + std::min(at + 2, hex.size());
    const auto [stop, error] = std::from_chars(begin, end, byte, 16);
    if (error != std::errc() || stop != begin + 2) throw Error(code, fmt::format("{} is not hex digits", kNameHex));
    name += static_cast<char>(byte);
  }
  return name;
}

void add_origin(Json& json, const CheckpointOrigin& origin) {
  if (origin.sequence == 0) return;
  const bool is_text = !find_invalid_utf8(origin.name);
  json[is_text ? "name" : kNameHex] = is_text ? origin.name : to_hex(std::as_bytes(std::span(origin.name)));
  json["sequence"] = origin.sequence;
  json["parent"] = origin.parent;
  json["run"] = origin.run;
  json["line"] = Json::array();
  for (const RunPart& part : origin.line) {
    json["line"].push_back({{"run", part.run}, {"last_sequence", part.last_sequence}});
  }
  json["host"] = origin.host;
  json["pid"] = origin.pid;
}

std::uint64_t sequence_of(const Json& object, const char* key, ErrorCode code) {
  const auto sequence = unsigned_member<std::uint64_t>(object, key, code);
  if (sequence == 0 || sequence > kSequenceMax) {
    throw Error(code, fmt::format("{} is not a number from 1 to {}", key, kSequenceMax));
  }
  return sequence;
}

CheckpointOrigin origin_of(const Json& json, ErrorCode code) {
  CheckpointOrigin origin;
  if (!json.contains("sequence")) return origin;
  origin.sequence = sequence_of(json, "sequence", code);
  origin.name = json.contains(kNameHex) ? name_from_hex(string_member(json, kNameHex, code), code)
                                        : string_member(json, "name", code);
  origin.parent = string_member(json, "parent", code);
  origin.run = string_member(json, "run", code);
  const Json& line = member(json, "line", code);
  if (!line.is_array()) throw Error(code, "line is not a list");
  for (const Json& part : line) {
    origin.line.push_back({string_member(part, "run", code), sequence_of(part, "last_sequence", code)});
  }
  origin.host = string_member(json, "host", code);
  origin.pid = unsigned_member<std::uint64_t>(json, "pid", code);
  return origin;
}

// Older releases recorded none, and renamed.
CommitMethod method_of(const Json& json, ErrorCode code) {
  if (!json.contains("commit")) return CommitMethod::kRename;
  const auto method = commit_method_from_name(string_member(json, "commit", code));
  if (!method || *method == CommitMethod::kAuto) throw Error(code, "commit is neither rename nor marker");
  return *method;
}

std::string serialize_with_digest(Json json) {
  json[kOwnDigest] = hex(digest_of(json));
  return serialize(json);
}

}  // namespace

void check_record(std::string_view text) {
  if (text.size() > kRecordBytesMax) {
    throw Error(ErrorCode::kResource, fmt::format("{} bytes; readers accept at most {}", text.size(), kRecordBytesMax));
  }
  check_bounds(text, ErrorCode::kResource);
}

std::string serialize_commit(const CommitRecord& record) {
  Json json = {{"version", kVersion},
               {"save_id", record.save_id},
               {"step", record.step},
               {"world_size", record.world_size},
               {"committed_unix_ns", record.committed_unix_ns},
               {"commit", commit_method_name(record.method)},
               {"files", files_json(record.files)}};
  add_origin(json, record.origin);
  return serialize_with_digest(std::move(json));
}

CommitRecord parse_commit(std::string_view text) {
  constexpr ErrorCode kCode = ErrorCode::kCheckpointUncommitted;
  return with_json(text, kCode, [](const Json& json) {
    check_version(json, kCode);
    check_own_digest(json, kCode);
    return CommitRecord{string_member(json, "save_id", kCode),
                        unsigned_member<std::uint64_t>(json, "step", kCode),
                        unsigned_member<std::uint32_t>(json, "world_size", kCode),
                        unsigned_member<std::uint64_t>(json, "committed_unix_ns", kCode),
                        files_of(member(json, "files", kCode), kCode),
                        origin_of(json, kCode),
                        method_of(json, kCode)};
  });
}

std::string serialize_manifest(const RankManifest& manifest) {
  return serialize_with_digest({{"version", kVersion},
                                {"save_id", manifest.save_id},
                                {"step", manifest.step},
                                {"rank", manifest.rank},
                                {"world_size", manifest.world_size},
                                {"sharding", sharding_json(manifest.sharding)},
                                {"files", files_json(manifest.files)}});
}

RankManifest parse_manifest(std::string_view text) {
  constexpr ErrorCode kCode = ErrorCode::kCheckpointPeer;
  return with_json(text, kCode, [](const Json& json) {
    check_version(json, kCode);
    check_own_digest(json, kCode);
    return RankManifest{string_member(json, "save_id", kCode),
                        unsigned_member<std::uint64_t>(json, "step", kCode),
                        unsigned_member<std::uint32_t>(json, "rank", kCode),
                        unsigned_member<std::uint32_t>(json, "world_size", kCode),
                        sharding_of(member(json, "sharding", kCode)),
                        files_of(member(json, "files", kCode), kCode)};
  });
}

}  // namespace tzmark::checkpoint
