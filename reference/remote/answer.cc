// See remote/answer.h.
#include "remote/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>
#include <utility>

namespace tzmark {
namespace {

constexpr std::size_t kHeaderBytesMax = 256 << 10;
// Of fields that are kept and sent back.
constexpr std::size_t kValueBytesMax = 1024;

std::string lower_text(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return lower;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// A number without sign or blanks.
std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A value that is printed, or nothing.
std::string kept_value(std::string_view value) { return can_be_sent(value) ? std::string(value) : std::string(); }

}  // namespace

bool can_be_sent(std::string_view value) {
  const auto is_odd = [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e;
  };
  return !value.empty() && value.size() <= kValueBytesMax && std::ranges::none_of(value, is_odd);
}

std::optional<ContentRange> parse_content_range(std::string_view value) {
  value = trimmed(value);
  if (lower_text(value.substr(0, 6)) != "bytes ") return std::nullopt;
  value = trimmed(value.substr(6));
  const std::size_t slash = value.find('/');
  if (slash == value.npos) return std::nullopt;
  ContentRange range;
  const std::string_view total = value.substr(slash + 1);
  if (total != "*") {
    range.total = whole_number(total);
    if (!range.total) return std::nullopt;
  }
  const std::string_view part = value.substr(0, slash);
  if (part == "*") return range.total ? std::optional(range) : std::nullopt;
  const std::size_t dash = part.find('-');
  if (dash == part.npos) return std::nullopt;
  range.first = whole_number(part.substr(0, dash));
  range.last = whole_number(part.substr(dash + 1));
  if (!range.first || !range.last || *range.last < *range.first) return std::nullopt;
  if (range.total && *range.last >= *range.total) return std::nullopt;
  return range;
}

std::optional<std::chrono::seconds> parse_retry_after(std::string_view value, std::time_t now) {
  value = trimmed(value);
  constexpr std::uint64_t kSecondsMax = 1'000'000'000;
  if (const auto number = whole_number(value)) return std::chrono::seconds(std::min(*number, kSecondsMax));
  std::tm date{};
  // IMF-fixdate, which every server must send.
  const std::string text(value);
  const char* const end = ::strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &date);
  if (end == nullptr || *end != '\0') return std::nullopt;
  const auto left_s = static_cast<std::uint64_t>(std::max<std::time_t>(::timegm(&date) - now, 0));
  return std::chrono::seconds(std::min(left_s, kSecondsMax));
}

bool is_strong(std::string_view etag) { return etag.size() >= 2 && etag.starts_with('"') && etag.ends_with('"'); }

bool Answer::add_line(std::string_view line) {
  header_bytes_ += line.size();
  if (header_bytes_ > kHeaderBytesMax) return false;
  line = trimmed(line);
  if (line.starts_with("HTTP/")) {
    const std::size_t before = header_bytes_;
    *this = Answer();
    header_bytes_ = before;
    status_at_least_2_ = line.substr(5, 1) >= "2";
    const std::size_t blank = line.find(' ');
    const auto status = blank == line.npos ? std::nullopt : whole_number(line.substr(blank + 1, 3));
    status_ = status ? static_cast<int>(*status) : 0;
    return true;
  }
  if (line.empty()) is_complete_ = true;
  const std::size_t colon = line.find(':');
  if (colon == line.npos) return true;
  const std::string name = lower_text(line.substr(0, colon));
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (name == "content-range") {
    // One that cannot be read is none, and the answer is refused.
    range_ = parse_content_range(value);
  } else if (name == "content-length") {
    content_length_ = whole_number(value);
  } else if (name == "transfer-encoding") {
    is_chunked_ = lower_text(value).find("chunked") != std::string::npos;
  } else if (name == "etag") {
    etag_ = value;
  } else if (name == "last-modified") {
    last_modified_ = value;
  } else if (name == "retry-after") {
    retry_after_ = kept_value(value);
  } else if (name == "content-encoding") {
    if (lower_text(value) != "identity") encoding_ = kept_value(value);
  } else if (name == "x-amz-bucket-region") {
    bucket_region_ = kept_value(value);
  }
  return true;
}

std::string status_text(int status) {
  static constexpr std::array<std::pair<int, const char*>, 20> kNames = {{{200, "OK"},
                                                                          {301, "Moved Permanently"},
                                                                          {302, "Found"},
                                                                          {400, "Bad Request"},
                                                                          {401, "Unauthorized"},
                                                                          {403, "Forbidden"},
                                                                          {404, "Not Found"},
                                                                          {405, "Method Not Allowed"},
                                                                          {407, "Proxy Authentication Required"},
                                                                          {408, "Request Timeout"},
                                                                          {410, "Gone"},
                                                                          {412, "Precondition Failed"},
                                                                          {416, "Range Not Satisfiable"},
                                                                          {425, "Too Early"},
                                                                          {429, "Too Many Requests"},
                                                                          {500, "Internal Server Error"},
                                                                          {501, "Not Implemented"},
                                                                          {502, "Bad Gateway"},
                                                                          {503, "Service Unavailable"},
                                                                          {504, "Gateway Timeout"}}};
  const auto found = std::ranges::find(kNames, status, [](const auto& name) { return name.first; });
  return found == kNames.end() ? fmt::format("HTTP {}", status) : fmt::format("HTTP {} ({})", status, found->second);
}

bool is_temporary_status(int status) {
  static constexpr std::array kTemporary = {408, 425, 429, 500, 502, 503, 504};
  return std::ranges::find(kTemporary, status) != kTemporary.end();
}

bool is_redirect(int status) {
  static constexpr std::array kRedirects = {301, 302, 303, 307, 308};
  return std::ranges::find(kRedirects, status) != kRedirects.end();
}

std::string difference(const Identity& identity, const Answer& answer) {
  if (answer.range() && answer.range()->total && *answer.range()->total != identity.bytes) {
    return fmt::format("it had {} bytes and now has {}", identity.bytes, *answer.range()->total);
  }
  if (!identity.etag.empty() && answer.etag() != identity.etag) {
    return answer.etag().empty() ? "it had an ETag and now has none" : "its ETag is another one";
  }
  // Copies of a file on several servers may have the same strong ETag and different dates.
  if (is_strong(identity.etag)) return {};
  if (!identity.last_modified.empty() && answer.last_modified() != identity.last_modified) {
    return "its Last-Modified is another one";
  }
  return {};
}

}  // namespace tzmark
