// Requests of HTTP and their answers; see http_request.h.
#include "runner/http_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

namespace tzmark::conformance {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
// A reader that takes it for data shows that it does not look at the status.
constexpr std::string_view kErrorBody = "This is not the file.\n";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < ' ' && c != '\t') || byte == 0x7f;
}

// RFC 9110, section 5.6.2.
bool is_token(std::string_view text) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return is_digit(c) || is_letter(c) || kMarks.find(c) != kMarks.npos;
  });
}

bool is_visible(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; });
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string_view trim_blanks(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// Takes a line off the text; nothing if it has no end.
std::optional<std::string_view> take_line(std::string_view& text) {
  const std::size_t end = text.find(kLineEnd);
  if (end == text.npos) return std::nullopt;
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end + kLineEnd.size());
  return line;
}

// The fields by their names in lower case; nothing if a line is no field. Several of one name are joined.
std::optional<std::map<std::string, std::string>> parse_fields(std::string_view text) {
  std::map<std::string, std::string> fields;
  while (const auto line = take_line(text)) {
    if (line->empty()) return text.empty() ? std::optional(fields) : std::nullopt;
    const std::size_t colon = line->find(':');
    if (colon == line->npos || !is_token(line->substr(0, colon))) return std::nullopt;
    const std::string_view value = trim_blanks(line->substr(colon + 1));
    if (std::ranges::any_of(value, is_control)) return std::nullopt;
    const auto [place, is_new] = fields.emplace(lower_case(line->substr(0, colon)), value);
    if (!is_new) place->second += fmt::format(", {}", value);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> number_of(std::string_view digits) {
  if (digits.empty() || !std::ranges::all_of(digits, is_digit)) return std::nullopt;
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t number = 0;
  for (const char digit : digits) {
    const auto value = static_cast<std::uint64_t>(digit - '0');
    number = number > (kMost - value) / 10 ? kMost : number * 10 + value;
  }
  return number;
}

// Whether a list of entity tags names this one, compared strongly: a weak one is never the same.
bool names_etag(std::string_view list, std::string_view etag) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    const std::string_view each = trim_blanks(list.substr(0, comma));
    if (each == etag || each == "*") return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

std::string_view phrase_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 206:
      return "Partial Content";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 412:
      return "Precondition Failed";
    case 416:
      return "Range Not Satisfiable";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    default:
      return "Bad Request";
  }
}

std::string head_of(int status, std::uint64_t body_bytes, bool keeps_connection, std::string_view fields) {
  return fmt::format("HTTP/1.1 {} {}\r\nContent-Length: {}\r\nConnection: {}\r\n{}\r\n", status, phrase_of(status),
                     body_bytes, keeps_connection ? "keep-alive" : "close", fields);
}

struct Part {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
};

// The part of a file that a range names; nothing if the file ends before it.
std::optional<Part> part_of(const HttpRange& range, std::uint64_t file_bytes) {
  if (range.suffix_bytes) {
    const std::uint64_t bytes = std::min(*range.suffix_bytes, file_bytes);
    return bytes == 0 ? std::nullopt : std::optional<Part>({file_bytes - bytes, bytes});
  }
  if (range.first >= file_bytes) return std::nullopt;
  const std::uint64_t last = std::min(range.last.value_or(file_bytes), file_bytes - 1);
  return Part{range.first, last - range.first + 1};
}

}  // namespace

std::optional<HttpRequest> parse_http_request(std::string_view head) {
  const auto line = take_line(head);
  if (!line) return std::nullopt;
  const std::size_t first = line->find(' ');
  const std::size_t second = line->find(' ', first + 1);
  if (first == line->npos || second == line->npos) return std::nullopt;
  HttpRequest request;
  request.method = line->substr(0, first);
  request.target = line->substr(first + 1, second - first - 1);
  const std::string_view version = line->substr(second + 1);
  if (!is_token(request.method) || !is_visible(request.target)) return std::nullopt;
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return std::nullopt;
  const auto fields = parse_fields(head);
  if (!fields) return std::nullopt;
  const auto value_of = [&](const char* name) {
    const auto found = fields->find(name);
    return found == fields->end() ? std::nullopt : std::optional(found->second);
  };
  if (value_of("transfer-encoding") || value_of("content-length").value_or("0") != "0") return std::nullopt;
  const std::string connection = lower_case(value_of("connection").value_or(""));
  request.keeps_connection = version == "HTTP/1.1" && connection.find("close") == connection.npos;
  request.range = value_of("range");
  request.if_match = value_of("if-match");
  request.if_range = value_of("if-range");
  return request;
}

std::optional<HttpRange> parse_http_range(std::string_view value) {
  constexpr std::string_view kUnit = "bytes=";
  if (lower_case(value.substr(0, kUnit.size())) != kUnit) return std::nullopt;
  value = trim_blanks(value.substr(kUnit.size()));
  const std::size_t dash = value.find('-');
  if (dash == value.npos) return std::nullopt;
  const std::string_view after = value.substr(dash + 1);
  HttpRange range;
  if (dash == 0) {
    range.suffix_bytes = number_of(after);
    return range.suffix_bytes ? std::optional(range) : std::nullopt;
  }
  const auto first = number_of(value.substr(0, dash));
  range.last = number_of(after);
  if (!first || (!range.last && !after.empty()) || (range.last && *range.last < *first)) return std::nullopt;
  range.first = *first;
  return range;
}

HttpAnswer answer_about(const HttpRequest& request, const HttpFile& file) {
  const bool keeps = request.keeps_connection;
  if (request.if_match && !names_etag(*request.if_match, file.etag)) return answer_of_status(412, keeps);
  const bool is_range_wanted = request.range && request.method == "GET" && file.has_ranges &&
                               (!request.if_range || trim_blanks(*request.if_range) == file.etag);
  const auto range = is_range_wanted ? parse_http_range(*request.range) : std::nullopt;
  HttpAnswer answer{.status = 200, .head = {}, .body = file.content};
  std::string fields = fmt::format("ETag: {}\r\nAccept-Ranges: {}\r\nContent-Type: application/octet-stream\r\n",
                                   file.etag, file.has_ranges ? "bytes" : "none");
  if (range) {
    const auto part = part_of(*range, file.content.size());
    if (!part) return answer_of_status(416, keeps, fmt::format("Content-Range: bytes */{}\r\n", file.content.size()));
    answer.status = 206;
    answer.begin = part->begin;
    answer.body = file.content.substr(part->begin, part->bytes);
    fields += fmt::format("Content-Range: bytes {}-{}/{}\r\n", part->begin, part->begin + part->bytes - 1,
                          file.content.size());
  }
  answer.head = head_of(answer.status, answer.body.size(), keeps, fields);
  return answer;
}

HttpAnswer answer_of_status(int status, bool keeps_connection, std::string_view fields) {
  return {.status = status, .head = head_of(status, kErrorBody.size(), keeps_connection, fields), .body = kErrorBody};
}

std::string percent_encoded(std::string_view text) {
  constexpr std::string_view kPlain = "-._~";
  std::string encoded;
  for (const char c : text) {
    const bool is_plain = is_digit(c) || is_letter(c) || kPlain.find(c) != kPlain.npos;
    encoded += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return encoded;
}

}  // namespace tzmark::conformance
