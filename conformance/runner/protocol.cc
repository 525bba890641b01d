// The adapter protocol; see protocol.h.
#include "protocol.h"

#include <fmt/format.h>
#include <string.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "errors.h"

namespace tzmark::conformance {
namespace {

constexpr int kProtocolVersion = 1;

const std::set<std::string> kCommands = {"decode", "verify"};
const std::set<std::string> kOmittable = {"layout", "wire_dtype", "crc32_field", "sha256_field", "module_index"};

constexpr int kRejectedStatus = 1;
constexpr int kUnsupportedStatus = 2;

// Members that nobody reads are mistakes of their author, for example a misspelt "lacks".
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

std::string_view last_line(std::string_view text) {
  text = trim(text);
  const std::size_t newline = text.rfind('\n');
  return newline == std::string_view::npos ? text : trim(text.substr(newline + 1));
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

Answer no_answer(std::string text) { return {AnswerKind::kNone, {}, {}, std::move(text)}; }

Answer read_accepted(Command command, std::string_view stdout_text) {
  Answer answer{AnswerKind::kAccepted, {}, {}, {}};
  if (command == Command::kVerify) {
    const auto verified = member_of_last_line(stdout_text, "verified");
    if (verified == Json(true)) return answer;
    return no_answer("exit status 0 without a last stdout line {\"verified\": true}");
  }
  try {
    answer.document = parse_untrusted_json(stdout_text);
  } catch (const std::exception& error) {
    return no_answer(fmt::format("exit status 0, but stdout is not one JSON document: {}", error.what()));
  }
  return answer;
}

Answer read_rejected(std::string_view stdout_text) {
  const auto rejected = member_of_last_line(stdout_text, "rejected");
  if (!rejected) return no_answer("exit status 1 without a last stdout line {\"rejected\": ...}");
  try {
    return {AnswerKind::kRejected, {}, parse_rejection(*rejected), {}};
  } catch (const std::exception& error) {
    return no_answer(fmt::format("exit status 1 with a malformed rejection: {}", error.what()));
  }
}

Answer read_unsupported(std::string_view stdout_text) {
  const auto unsupported = member_of_last_line(stdout_text, "unsupported");
  if (unsupported && unsupported->is_string()) {
    return {AnswerKind::kUnsupported, {}, {}, unsupported->get<std::string>()};
  }
  return no_answer("exit status 2 without a last stdout line {\"unsupported\": TEXT}");
}

}  // namespace

std::string_view name_of(Command command) { return command == Command::kDecode ? "decode" : "verify"; }

std::string_view name_of(AnswerKind kind) {
  constexpr std::array<std::string_view, 4> kNames = {"accepted", "rejected", "unsupported", "none"};
  return kNames[static_cast<std::size_t>(kind)];
}

Profile parse_profile(std::string_view stdout_text) {
  Profile profile;
  try {
    profile.document = parse_untrusted_json(stdout_text);
    const Json& document = profile.document;
    refuse_unknown_members(document, {"protocol", "name", "version", "commands", "reads"}, "the profile");
    if (document.at("protocol") != kProtocolVersion) {
      throw EnvironmentError(fmt::format("protocol {} is not {}", document.at("protocol").dump(), kProtocolVersion));
    }
    profile.name = document.at("name").get<std::string>();
    profile.version = document.at("version").get<std::string>();
    profile.commands = document.at("commands").get<std::set<std::string>>();
    refuse_unknown_values(profile.commands, kCommands, "commands");
    if (profile.commands.empty()) throw EnvironmentError("it has neither decode nor verify");
    const Json& reads = document.at("reads");
    refuse_unknown_members(reads, {"layouts", "lacks", "omits"}, "\"reads\"");
    profile.layouts = reads.at("layouts").get<std::set<std::string>>();
    profile.lacks = string_set(reads, "lacks");
    profile.omits = string_set(reads, "omits");
    refuse_unknown_values(profile.omits, kOmittable, "omits");
  } catch (const std::exception& error) {
    throw EnvironmentError(fmt::format("the adapter's capabilities: {}", error.what()));
  }
  return profile;
}

Answer read_answer(Command command, const ProcessResult& process) {
  switch (process.end) {
    case ProcessEnd::kExited:
      break;
    case ProcessEnd::kSignaled:
      return no_answer(fmt::format("killed by signal {} ({})", process.signal, ::strsignal(process.signal)));
    case ProcessEnd::kTimedOut:
      return no_answer(
          fmt::format("still running after {:.1f} s", std::chrono::duration<double>(process.elapsed).count()));
    case ProcessEnd::kMemoryBroken:
      return no_answer(
          fmt::format("used {:.1f} MiB of memory", static_cast<double>(process.rss_peak_bytes) / (1 << 20)));
    case ProcessEnd::kOutputBroken:
      return no_answer(fmt::format("printed more than {} MiB", process.stdout_text.size() >> 20));
    case ProcessEnd::kCancelled:
      return no_answer("stopped by the user");
  }
  switch (process.exit_status) {
    case 0:
      return read_accepted(command, process.stdout_text);
    case kRejectedStatus:
      return read_rejected(process.stdout_text);
    case kUnsupportedStatus:
      return read_unsupported(process.stdout_text);
    default:
      return no_answer(fmt::format("exit status {}", process.exit_status));
  }
}

}  // namespace tzmark::conformance
