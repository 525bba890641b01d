// Reading JSON with places; see json_reader.h.
#include "safetensors_model/json_reader.h"

#include <cmath>
#include <cstdlib>
#include <set>

namespace tzmark::conformance::safetensors {
namespace {

constexpr unsigned kDepthMax = 127;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

void append_utf8(std::string& text, std::uint32_t code) {
  const auto add = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xC0 | code >> 6);
    add(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    add(0xE0 | code >> 12);
    add(0x80 | (code >> 6 & 0x3F));
    add(0x80 | (code & 0x3F));
  } else {
    add(0xF0 | code >> 18);
    add(0x80 | (code >> 12 & 0x3F));
    add(0x80 | (code >> 6 & 0x3F));
    add(0x80 | (code & 0x3F));
  }
}

}  // namespace

void JsonReader::skip_space() {
  while (at_ < text_.size() && std::string_view(" \t\n\r").find(text_[at_]) != std::string_view::npos) ++at_;
}

char JsonReader::next() {
  skip_space();
  if (is_at_end()) fail("the text ends where a value should be");
  return text_[at_];
}

char JsonReader::take(std::string_view allowed, const char* wanted) {
  skip_space();
  if (is_at_end() || allowed.find(text_[at_]) == std::string_view::npos) fail(std::string("there should be ") + wanted);
  return text_[at_++];
}

std::uint32_t JsonReader::hex_digits() {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i, ++at_) {
    const char c = is_at_end() ? '\0' : text_[at_];
    const std::uint32_t digit = is_digit(c)            ? static_cast<std::uint32_t>(c - '0')
                                : c >= 'a' && c <= 'f' ? static_cast<std::uint32_t>(c - 'a' + 10)
                                : c >= 'A' && c <= 'F' ? static_cast<std::uint32_t>(c - 'A' + 10)
                                                       : 16;
    if (digit == 16) fail("an escape has four hexadecimal digits");
    value = value << 4 | digit;
  }
  return value;
}

std::string JsonReader::string() {
  take("\"", "a string");
  std::string text;
  while (true) {
    if (is_at_end()) fail("a string has no end");
    const char c = text_[at_];
    if (static_cast<unsigned char>(c) < 0x20) fail("a control character is not escaped");
    ++at_;
    if (c == '"') return text;
    if (c != '\\') {
      text += c;
      continue;
    }
    constexpr std::string_view kEscapes = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
    const char escape = is_at_end() ? '\0' : text_[at_];
    if (const std::size_t known = kEscapes.find(escape); !is_at_end() && known != std::string_view::npos) {
      text += kMeant[known];
      ++at_;
      continue;
    }
    if (escape != 'u') fail("JSON has no such escape");
    ++at_;
    std::uint32_t code = hex_digits();
    if (code >= 0xDC00 && code < 0xE000) fail("the second half of a surrogate pair is alone");
    if (code >= 0xD800 && code < 0xDC00) {
      if (text_.substr(at_, 2) != "\\u") fail("the first half of a surrogate pair is alone");
      at_ += 2;
      const std::uint32_t low = hex_digits();
      if (low < 0xDC00 || low >= 0xE000) fail("the first half of a surrogate pair is alone");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    append_utf8(text, code);
  }
}

std::string_view JsonReader::number() {
  skip_space();
  const std::size_t begin = at_;
  const auto is_next = [&](std::string_view any_of) {
    return at_ < text_.size() && any_of.find(text_[at_]) != std::string_view::npos;
  };
  const auto digits = [&] {
    if (is_at_end() || !is_digit(text_[at_])) fail("a number lacks a digit");
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
  };
  if (is_next("-")) ++at_;
  // Nothing but a fraction or an exponent follows a 0.
  is_next("0") ? static_cast<void>(++at_) : digits();
  if (is_next(".")) {
    ++at_;
    digits();
  }
  if (is_next("eE")) {
    ++at_;
    if (is_next("+-")) ++at_;
    digits();
  }
  const std::string_view written = text_.substr(begin, at_ - begin);
  if (std::isinf(std::strtod(std::string(written).c_str(), nullptr))) fail("the number is beyond any float");
  return written;
}

void JsonReader::enter(std::size_t opened_at) {
  if (++depth_ > kDepthMax) throw NotJson{opened_at, "arrays and objects nest more than 127 deep"};
}

std::size_t JsonReader::object(const Key& key, const std::function<void()>& value) {
  take("{", "an object");
  enter(at_ - 1);
  if (next() == '}') {
    --depth_;
    return at_++;
  }
  do {
    if (next() != '"') fail("there should be a key");
    const std::size_t key_at = at_;
    key(string(), key_at);
    take(":", "a colon");
    next();
    value();
  } while (take(",}", "a comma or a closing brace") == ',');
  --depth_;
  return at_ - 1;
}

std::size_t JsonReader::array(const std::function<void(std::size_t number)>& item) {
  take("[", "a list");
  enter(at_ - 1);
  if (next() == ']') {
    --depth_;
    return at_++;
  }
  std::size_t number = 0;
  do {
    next();
    item(number++);
  } while (take(",]", "a comma or a closing bracket") == ',');
  --depth_;
  return at_ - 1;
}

void JsonReader::any_value(const std::function<void(std::size_t key_at)>& repeated) {
  switch (next()) {
    case '{': {
      std::set<std::string> keys;
      object(
          [&](std::string key, std::size_t key_at) {
            if (!keys.insert(std::move(key)).second && repeated) repeated(key_at);
          },
          [&] { any_value(repeated); });
      return;
    }
    case '[':
      array([&](std::size_t) { any_value(repeated); });
      return;
    case '"':
      string();
      return;
    default:
      break;
  }
  for (const std::string_view word : {"true", "false", "null"}) {
    if (text_.substr(at_).starts_with(word)) {
      at_ += word.size();
      return;
    }
  }
  const char c = text_[at_];
  if (c != '-' && !is_digit(c)) fail("there should be a value");
  number();
}

}  // namespace tzmark::conformance::safetensors
