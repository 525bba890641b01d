// The adapter protocol; see protocol.h.
#include "runner/protocol.h"

#include <fmt/format.h>
#include <string.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "model/tables.h"
#include "runner/directory_tree.h"
#include "runner/errors.h"
#include "runner/file_format.h"
#include "runner/input_mode.h"
#include "runner/json.h"
#include "runner/limits.h"

namespace tzmark::conformance {
namespace {

constexpr int kProtocolVersion = 1;

const std::set<std::string> kCommands = {"decode", "verify", "stream", "encode", "serve"};
const std::set<std::string> kReaderMayOmit = {"layout",      "metadata",     "wire_dtype",
                                              "crc32_field", "sha256_field", "module_index"};
const std::set<std::string> kWriterMayOmit = {"module_index"};
constexpr std::size_t kNameMaxBytes = 200;
constexpr int kRejectedStatus = 1;
constexpr int kUnsupportedStatus = 2;

// Unknown members are mistakes, for example a misspelt "lacks".
void refuse_unknown_members(const Json& object, const std::set<std::string>& known, const char* where) {
  if (!object.is_object()) throw EnvironmentError(fmt::format("{} is not an object", where));
  for (const auto& [name, value] : object.items()) {
    if (!known.contains(name)) throw EnvironmentError(fmt::format("{} has an unknown member '{}'", where, name));
  }
}

std::set<std::string> string_set(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? std::set<std::string>{} : found->get<std::set<std::string>>();
}

void refuse_unknown_values(const std::set<std::string>& values, const std::set<std::string>& known, const char* where) {
  for (const std::string& value : values) {
    if (!known.contains(value)) throw EnvironmentError(fmt::format("'{}' in {} means nothing", value, where));
  }
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// The member of an object that is the last line of stdout; nothing if the line is not such an object.
std::optional<Json> member_of_last_line(std::string_view stdout_text, const char* name) {
  try {
    const Json line = parse_untrusted_json(last_line(stdout_text));
    if (line.is_object() && line.contains(name)) return line.at(name);
  } catch (const std::exception&) {
    // Anything that is not JSON is not the line that we look for; the caller says what is missing.
  }
  return std::nullopt;
}

Rejection parse_rejection(const Json& document) {
  Rejection rejection;
  if (!document.is_object()) throw std::runtime_error("\"rejected\" is not an object");
  if (document.contains("rule") && !document["rule"].is_null()) rejection.rule = document["rule"].get<std::string>();
  if (document.contains("offset") && !document["offset"].is_null()) {
    if (!document["offset"].is_number_unsigned()) throw std::runtime_error("the offset is not a non-negative integer");
    rejection.offset = document["offset"].get<std::uint64_t>();
  }
  rejection.message = document.at("message").get<std::string>();
  return rejection;
}

double mebibytes(std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// The limit that was broken, after what was used.
std::string limit_of_bytes(const std::optional<std::uint64_t>& max_bytes) {
  return max_bytes ? fmt::format(", limit {:.1f} MiB", mebibytes(*max_bytes)) : "";
}
std::string limit_of_time(const std::optional<std::chrono::nanoseconds>& max) {
  return max ? fmt::format(", limit {:.1f} s", seconds_of(*max)) : "";
}

Answer no_answer(std::string text) { return {AnswerKind::kNone, {}, {}, std::move(text)}; }

// The member that accepts a command.
const char* yes_of(Command command) {
  constexpr std::array<const char*, 4> kMembers = {"decoded", "verified", "decoded", "encoded"};
  return kMembers[static_cast<std::size_t>(command)];
}

Answer read_accepted(Command command, std::string_view stdout_text) {
  Answer answer{AnswerKind::kAccepted, {}, {}, {}};
  if (!gives_content(command)) {
    if (member_of_last_line(stdout_text, yes_of(command)) == Json(true)) return answer;
    return no_answer(fmt::format("exit status 0 without a last stdout line {{\"{}\": true}}", yes_of(command)));
  }
  try {
    answer.document = parse_untrusted_json(stdout_text);
  } catch (const std::exception& error) {
    return no_answer(fmt::format("exit status 0, but stdout is not one JSON document: {}", problem_of(error)));
  }
  if (!answer.document.is_object()) return no_answer("exit status 0, but the JSON on stdout is not an object");
  return answer;
}

Answer read_rejected(std::string_view stdout_text) {
  const auto rejected = member_of_last_line(stdout_text, "rejected");
  if (!rejected) return no_answer("exit status 1 without a last stdout line {\"rejected\": ...}");
  try {
    return {AnswerKind::kRejected, {}, parse_rejection(*rejected), {}, false};
  } catch (const std::exception& error) {
    return no_answer(fmt::format("exit status 1 with a malformed rejection: {}", problem_of(error)));
  }
}

Answer read_unsupported(std::string_view stdout_text) {
  const auto unsupported = member_of_last_line(stdout_text, "unsupported");
  if (unsupported && unsupported->is_string()) {
    return {AnswerKind::kUnsupported, {}, {}, unsupported->get<std::string>()};
  }
  return no_answer("exit status 2 without a last stdout line {\"unsupported\": TEXT}");
}

// The answer line of a serving process: an object with the id and one member more.
Json parse_served_line(std::uint64_t id, std::string_view line) {
  Json document = parse_untrusted_json(line);
  if (!document.is_object() || document.size() != 2) throw std::runtime_error("not an object of an id and one answer");
  if (document.value("id", Json()) != Json(id)) throw std::runtime_error(fmt::format("its id is not {}", id));
  document.erase("id");
  return document;
}

Abilities parse_abilities(const Json& profile, const char* name, const std::set<std::string>& omittable) {
  const Json& object = profile.at(name);
  std::set<std::string> members = {"layouts", "lacks", "omits"};
  if (name == std::string_view("reads")) members.insert("shapes");
  refuse_unknown_members(object, members, name);
  Abilities abilities = {object.at("layouts").get<std::set<std::string>>(), string_set(object, "lacks"),
                         string_set(object, "omits"), string_set(object, "shapes")};
  // A misspelt layout would silently skip all of its cases.
  refuse_unknown_values(abilities.layouts, known_layouts(), "layouts");
  refuse_unknown_values(abilities.omits, omittable, "omits");
  refuse_unknown_values(abilities.input_modes, claimed_input_modes(), "shapes");
  return abilities;
}

template <typename Read>
Profile read_profile(const Read& read) {
  Profile profile;
  try {
    profile.document = read();
    const Json& document = profile.document;
    refuse_unknown_members(document, {"protocol", "name", "version", "commands", "reads", "writes"}, "the profile");
    if (document.at("protocol") != kProtocolVersion) {
      throw EnvironmentError(fmt::format("protocol {} is not {}", document.at("protocol").dump(), kProtocolVersion));
    }
    profile.name = one_line(document.at("name").get<std::string>(), kNameMaxBytes);
    profile.version = one_line(document.at("version").get<std::string>(), kNameMaxBytes);
    profile.commands = document.at("commands").get<std::set<std::string>>();
    refuse_unknown_values(profile.commands, kCommands, "commands");
    const bool reads = profile.reads_anything();
    const bool writes = profile.has(Command::kEncode);
    if (!reads && !writes) throw EnvironmentError("it has none of decode, verify, stream and encode");
    if (reads || document.contains("reads")) profile.reads = parse_abilities(document, "reads", kReaderMayOmit);
    if (writes || document.contains("writes")) profile.writes = parse_abilities(document, "writes", kWriterMayOmit);
  } catch (const std::exception& error) {
    throw EnvironmentError(fmt::format("the adapter's capabilities: {}", problem_of(error)));
  }
  return profile;
}

}  // namespace

std::string_view last_line(std::string_view text) {
  text = trim(text);
  const std::size_t newline = text.rfind('\n');
  return newline == std::string_view::npos ? text : trim(text.substr(newline + 1));
}

std::string_view name_of(Command command) {
  constexpr std::array<std::string_view, 4> kNames = {"decode", "verify", "stream", "encode"};
  return kNames[static_cast<std::size_t>(command)];
}

std::string_view name_of(AnswerKind kind) {
  constexpr std::array<std::string_view, 4> kNames = {"accepted", "rejected", "unsupported", "none"};
  return kNames[static_cast<std::size_t>(kind)];
}

const std::set<std::string>& known_layouts() {
  static const std::set<std::string> names = all_layouts();
  return names;
}

Profile profile_of(const Json& document) {
  return read_profile([&] { return document; });
}

Profile parse_profile(std::string_view text) {
  return read_profile([&] { return parse_untrusted_json(text); });
}

Answer describe_end(const ProcessResult& process) {
  switch (process.end) {
    case ProcessEnd::kLost:
      return no_answer("its end was lost: the process that waits for it was killed");
    case ProcessEnd::kExited:
      return no_answer(fmt::format("exit status {}", process.exit_status));
    case ProcessEnd::kSignaled:
      return no_answer(fmt::format("killed by signal {} ({})", process.signal, ::strsignal(process.signal)));
    case ProcessEnd::kTimedOut:
      return no_answer(fmt::format("still running after {:.1f} s{}", seconds_of(process.elapsed),
                                   limit_of_time(process.elapsed_max)));
    case ProcessEnd::kMemoryBroken:
      return no_answer(fmt::format("used {:.1f} MiB of memory{}", mebibytes(process.rss_peak_bytes),
                                   limit_of_bytes(process.rss_max_bytes)));
    case ProcessEnd::kOutputBroken:
      return no_answer("printed more than 64 MiB");
    case ProcessEnd::kDiskBroken:
      return no_answer(process.disk_peak_bytes == kTooDeep
                           ? fmt::format("made directories that are nested more than {} deep or cannot be listed",
                                         kDirectoryDepthMax)
                           : fmt::format("wrote {:.1f} MiB to disk{}", mebibytes(process.disk_peak_bytes),
                                         limit_of_bytes(process.disk_max_bytes)));
    case ProcessEnd::kCountBroken:
      return no_answer(fmt::format("had {} threads and {} open files in all processes together{}", process.threads_peak,
                                   process.files_peak,
                                   process.threads_max && process.files_max
                                       ? fmt::format(", limits {} and {}", *process.threads_max, *process.files_max)
                                       : ""));
    case ProcessEnd::kCancelled:
      return no_answer("stopped by the user");
    case ProcessEnd::kInputBroken:
      return no_answer(fmt::format("took {} bytes and still did not refuse", process.stdin_taken_bytes));
    case ProcessEnd::kAnswered:
      break;
  }
  return no_answer("answered");
}

Answer read_answer(Command command, const ProcessResult& process) {
  if (process.end != ProcessEnd::kExited) return describe_end(process);
  switch (process.exit_status) {
    case 0:
      return read_accepted(command, process.stdout_text);
    case kRejectedStatus:
      return read_rejected(process.stdout_text);
    case kUnsupportedStatus:
      return read_unsupported(process.stdout_text);
    default:
      return describe_end(process);
  }
}

Answer read_served_answer(Command command, std::uint64_t id, const ProcessResult& process) {
  if (process.end != ProcessEnd::kAnswered) return describe_end(process);
  try {
    const Json line = parse_served_line(id, process.stdout_text);
    const std::string& name = line.begin().key();
    const Json& value = line.front();
    if (name == yes_of(command) && gives_content(command)) {
      if (value.is_object()) return {AnswerKind::kAccepted, value, {}, {}};
      return no_answer(fmt::format("answered {} with what is not an object", name));
    }
    if (name == yes_of(command) && value == Json(true)) return {AnswerKind::kAccepted, {}, {}, {}};
    if (name == "rejected") return {AnswerKind::kRejected, {}, parse_rejection(value), {}};
    if (name == "unsupported") return {AnswerKind::kUnsupported, {}, {}, value.get<std::string>()};
    if (name == "crashed") return {AnswerKind::kNone, {}, {}, value.get<std::string>(), true};
    return no_answer(fmt::format("answered {}, which is no answer to {}", compact_dump(line, 100), name_of(command)));
  } catch (const std::exception& error) {
    return no_answer(fmt::format("a line that is no answer: {}", problem_of(error)));
  }
}

Profile read_served_profile(std::uint64_t id, const ProcessResult& process) {
  if (process.end != ProcessEnd::kAnswered) throw EnvironmentError(describe_end(process).text);
  try {
    return profile_of(parse_served_line(id, process.stdout_text).at("capabilities"));
  } catch (const std::exception& error) {
    throw EnvironmentError(fmt::format("serve: {}", problem_of(error)));
  }
}

}  // namespace tzmark::conformance
