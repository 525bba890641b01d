// See io/url.h.
#include "io/url.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>

#include "tzmark/error.h"

namespace tzmark {
namespace {

// What may follow the host without being encoded: what the standard lists, and the escapes that are there already.
constexpr std::string_view kAllowedInPath = "-._~!$&'()*+,;=:@/%";
constexpr std::size_t kUrlBytesMax = 16 << 10;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

[[noreturn]] void refuse_url(const std::string& why) {
  throw Error(ErrorCode::kUsage, fmt::format("invalid URL: {}", why));
}

std::optional<int> hex_value(char c) {
  if (is_digit(c)) return c - '0';
  const char lower = to_lower(c);
  if (lower >= 'a' && lower <= 'f') return lower - 'a' + 10;
  return std::nullopt;
}

std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto high = text[i] == '%' && i + 2 < text.size() ? hex_value(text[i + 1]) : std::nullopt;
    const auto low = high ? hex_value(text[i + 2]) : std::nullopt;
    if (low) {
      decoded.push_back(static_cast<char>(*high * 16 + *low));
      i += 2;
    } else {
      decoded.push_back(text[i]);
    }
  }
  return decoded;
}

// A URL cut into parts, none of them checked.
struct RawUrl {
  std::string_view user_information, host, port, path, query;
  bool has_user_information = false;
};

RawUrl cut(std::string_view url) {
  RawUrl raw;
  std::string_view rest = url.substr(url.find("://") + 3);
  std::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
  rest.remove_prefix(authority.size());
  rest = rest.substr(0, rest.find('#'));
  if (const std::size_t at = authority.rfind('@'); at != authority.npos) {
    raw.has_user_information = true;
    raw.user_information = authority.substr(0, at);
    authority.remove_prefix(at + 1);
  }
  const std::size_t after_address = authority.starts_with('[') ? authority.find(']') : 0;
  const std::size_t colon = after_address == authority.npos ? authority.npos : authority.find(':', after_address);
  raw.host = authority.substr(0, colon);
  if (colon != authority.npos) raw.port = authority.substr(colon + 1);
  const std::size_t question = rest.find('?');
  raw.path = rest.substr(0, question);
  if (question != rest.npos) raw.query = rest.substr(question);
  return raw;
}

bool is_plain_host(std::string_view host) {
  const bool is_address = host.starts_with('[') && host.ends_with(']');
  const std::string_view inside = is_address ? host.substr(1, host.size() - 2) : host;
  const std::string_view others = is_address ? ":." : "-._";
  return !inside.empty() && std::ranges::all_of(inside, [&](char c) {
    return is_letter(c) || is_digit(c) || others.find(c) != others.npos;
  });
}

bool is_port(std::string_view port) { return port.size() <= 5 && std::ranges::all_of(port, is_digit); }

}  // namespace

std::string Url::origin() const {
  return fmt::format("{}://{}:{}", scheme, host, !port.empty() ? port : scheme == "https" ? "443" : "80");
}

std::string Url::address() const {
  return fmt::format("{}://{}{}{}{}{}", scheme, host, port.empty() ? "" : ":", port, path, query);
}

std::string url_scheme(std::string_view file_name) {
  for (const std::string_view scheme : {"https", "http", "s3"}) {
    const auto is_same = [](char a, char b) { return to_lower(a) == b; };
    if (file_name.size() > scheme.size() && std::ranges::equal(file_name.substr(0, scheme.size()), scheme, is_same) &&
        file_name.substr(scheme.size()).starts_with("://")) {
      return std::string(scheme);
    }
  }
  return {};
}

std::string percent_encoded(std::string_view text, std::string_view kept) {
  std::string encoded;
  for (const char c : text) {
    if (is_letter(c) || is_digit(c) || kept.find(c) != kept.npos) {
      encoded.push_back(c);
    } else {
      fmt::format_to(std::back_inserter(encoded), "%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

Url parse_url(std::string_view url) {
  if (url.size() > kUrlBytesMax) refuse_url(fmt::format("it has more than {} bytes", kUrlBytesMax));
  if (std::ranges::any_of(url, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; })) {
    refuse_url("it contains a control character");
  }
  const RawUrl raw = cut(url);
  if (!is_plain_host(raw.host)) refuse_url("its host is not a name or an address");
  if (!is_port(raw.port)) refuse_url("its port is not a number");
  Url parsed;
  parsed.scheme = url_scheme(url);
  const std::size_t colon = raw.user_information.find(':');
  parsed.user = percent_decoded(raw.user_information.substr(0, colon));
  if (colon != raw.user_information.npos) parsed.password = percent_decoded(raw.user_information.substr(colon + 1));
  std::ranges::transform(raw.host, std::back_inserter(parsed.host), to_lower);
  parsed.port = raw.port;
  parsed.path = raw.path.empty() ? "/" : percent_encoded(raw.path, kAllowedInPath);
  parsed.query = percent_encoded(raw.query, fmt::format("{}?", kAllowedInPath));
  return parsed;
}

std::string last_part_of_url(std::string_view url) {
  const bool is_key = url_scheme(url) == "s3";
  const RawUrl raw = cut(url);
  const std::string whole = is_key ? std::string(url) : std::string(raw.path);
  return whole.substr(whole.rfind('/') + 1);
}

std::string sibling_url(std::string_view url, std::string_view name) {
  const bool is_key = url_scheme(url) == "s3";
  const std::string_view whole = is_key ? url : url.substr(0, url.find_first_of("?#", url.find("://") + 3));
  const std::string_view directory = whole.substr(0, whole.rfind('/') + 1);
  return fmt::format("{}{}", directory, is_key ? std::string(name) : percent_encoded(name, "-._~"));
}

bool is_url(std::string_view file_name) { return !url_scheme(file_name).empty(); }

namespace {

// The name of a local file, which may be meant as a URL of a scheme that is not read: ftp://user:password@host/file.
std::string local_display_name(std::string_view file_name) {
  const std::size_t mark = file_name.find("://");
  const std::size_t at = file_name.rfind('@');
  if (mark == file_name.npos || at == file_name.npos || at < mark) return std::string(file_name);
  return fmt::format("{}...{}", file_name.substr(0, mark + 3), file_name.substr(at));
}

}  // namespace

std::string display_name(std::string_view file_name) {
  const std::string scheme = url_scheme(file_name);
  if (scheme.empty()) return local_display_name(file_name);
  const RawUrl raw = cut(file_name);
  // Where the parts are not clear, a secret may be in any of them. "http://h/a,http://user:secret@h/b":
  const std::size_t inner = file_name.find("://", file_name.find("://") + 3);
  if (inner != file_name.npos && file_name.find('@', inner) != file_name.npos) return scheme + "://...";
  // "http://user:1234/5@host/": a password that has to be encoded and is not.
  const bool is_cut_password =
      !raw.port.empty() && file_name.find('@', raw.port.end() - file_name.begin()) != file_name.npos;
  if (!is_plain_host(raw.host) || !is_port(raw.port) || is_cut_password) return scheme + "://...";
  // The key of an s3 URL may contain any character.
  if (scheme == "s3" && !raw.has_user_information && raw.port.empty()) return std::string(file_name);
  return fmt::format("{}://{}{}{}{}{}", scheme, raw.host, raw.port.empty() ? "" : ":", raw.port, raw.path,
                     raw.query.empty() ? "" : "?...");
}

namespace {

// Where a URL begins in a token, or npos.
std::size_t url_in(std::string_view token) {
  for (std::size_t mark = token.find("://"); mark != token.npos; mark = token.find("://", mark + 1)) {
    std::size_t begin = mark;
    while (begin > 0 && (is_letter(token[begin - 1]) || is_digit(token[begin - 1]))) --begin;
    if (is_url(token.substr(begin))) return begin;
  }
  return token.npos;
}

// The length of the first token of a message. A URL ends at a blank or a quotation mark, but not within a password that
// has one.
std::size_t token_of(std::string_view message) {
  constexpr std::string_view kEnds = " \t\n\"'";
  const std::size_t token_bytes = std::min(message.find_first_of(kEnds), message.size());
  const std::size_t begin = url_in(message.substr(0, token_bytes));
  if (begin == message.npos) return token_bytes;
  const std::size_t host_end = message.find_first_of("/\n", message.find("://", begin) + 3);
  // Behind the mark, a slash may belong to the password, too; what has a scheme of its own is another URL.
  const std::size_t rest_end = std::min(message.find_first_of(" \t\n", token_bytes), message.find("://", token_bytes));
  std::size_t at = message.substr(0, rest_end).rfind('@');
  const std::size_t at_of_host = message.substr(0, host_end).rfind('@');
  if (at == message.npos || (at_of_host != message.npos && at_of_host > at)) at = at_of_host;
  if (at == message.npos || at < token_bytes) return token_bytes;
  return std::min(message.find_first_of(kEnds, at), message.size());
}

}  // namespace

std::string without_secrets(std::string_view message) {
  std::string text;
  while (!message.empty()) {
    const std::size_t token_bytes = token_of(message);
    const std::string_view token = message.substr(0, token_bytes);
    const std::size_t begin = url_in(token);
    // The punctuation of the message is not a part of the URL.
    std::size_t end = token.size();
    while (begin < end && std::string_view(":;,)").find(token[end - 1]) != std::string_view::npos) --end;
    if (begin == token.npos) {
      text += token;
    } else {
      text += token.substr(0, begin);
      text += display_name(token.substr(begin, end - begin));
      text += token.substr(end);
    }
    if (token_bytes < message.size()) text += message[token_bytes];
    message.remove_prefix(std::min(token_bytes + 1, message.size()));
  }
  return text;
}

void require_local(std::string_view file_name) {
  if (!is_url(file_name)) return;
  throw Error(ErrorCode::kUsage,
              "a file of this machine is needed here: a URL names a model to read, and nothing else");
}

}  // namespace tzmark
