// Mistakes with the JSON of a safetensors header; see safetensors_bugs.h.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>

#include "model/text.h"
#include "planted_bugs/safetensors_bugs.h"

namespace tzmark::conformance::planted {
namespace {

using mutation::JsonItem;
using mutation::JsonValue;
using mutation::SafetensorsDraft;
using Kind = JsonValue::Kind;

constexpr std::array kContainers = {Place::kRoot,    Place::kTensor,   Place::kShape,
                                    Place::kOffsets, Place::kMetadata, Place::kIgnored};
constexpr std::array kStrings = {Place::kTensorName, Place::kMember,       Place::kDtype,
                                 Place::kMetadata,   Place::kMetadataText, Place::kIgnored};

std::string header_text(const SafetensorsDraft& draft) { return draft.lead + write(draft.root) + draft.tail; }

// Another text in place of the header; the length of the header stays wrong by as much as it was.
void set_header(SafetensorsDraft& draft, const std::string& text) {
  const std::size_t begin = std::min(text.find('{'), text.size());
  draft.lead = text.substr(0, begin);
  draft.root = mutation::split_json(std::string_view(text).substr(begin));
  draft.tail = text.substr(std::min(text.size(), begin + write(draft.root).size()));
}

// Replaces what is found outside of strings.
std::string replaced_outside_strings(const std::string& text, std::string_view from, std::string_view to) {
  std::string result;
  bool is_inside = false;
  for (std::size_t i = 0; i < text.size();) {
    if (!is_inside && text.compare(i, from.size(), from) == 0) {
      result += to;
      i += from.size();
      continue;
    }
    if (is_inside && text[i] == '\\' && i + 1 < text.size()) result += text[i++];
    if (text[i] == '"') is_inside = !is_inside;
    result += text[i++];
  }
  return result;
}

// Comments from `begin` to `end` become white space.
std::string without_comments(std::string text, std::string_view begin, std::string_view end) {
  bool is_inside = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_inside && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      is_inside = !is_inside;
    } else if (!is_inside && text.compare(i, begin.size(), begin) == 0) {
      const std::size_t found = text.find(end, i + begin.size());
      const std::size_t stop = found == text.npos ? text.size() : found + end.size();
      std::fill(text.begin() + static_cast<std::ptrdiff_t>(i), text.begin() + static_cast<std::ptrdiff_t>(stop), ' ');
    }
  }
  return text;
}

void add_white_space(SafetensorsBugs& bugs) {
  const std::vector<std::pair<std::string, std::string_view>> spaces = {
      {"a form feed", "\f"},      {"a vertical tab", "\v"},   {"NUL", {"\0", 1}},         {"NEL", "\xc2\x85"},
      {"U+00A0", "\xc2\xa0"},     {"U+FEFF", "\xef\xbb\xbf"}, {"U+2028", "\xe2\x80\xa8"}, {"U+2003", "\xe2\x80\x83"},
      {"U+3000", "\xe3\x80\x80"}, {"a backspace", "\b"},      {"U+001F", "\x1f"},         {"DEL", "\x7f"}};
  for (const auto& [name, character] : spaces) {
    plant(bugs, "ST-006", fmt::format("takes {} for white space in the header", name),
          takes([space = std::string(character)](SafetensorsDraft& draft) {
            set_header(draft, draft.lead + replaced_outside_strings(write(draft.root), space, " ") + draft.tail);
          }));
    plant(bugs, "ST-005", fmt::format("skips {} before the object", name),
          takes([space = std::string(character)](SafetensorsDraft& draft) {
            draft.lead = replaced_outside_strings(draft.lead, space, "");
          }));
    plant(bugs, "ST-007", fmt::format("skips {} behind the object", name),
          takes([space = std::string(character)](SafetensorsDraft& draft) {
            draft.tail = replaced_outside_strings(draft.tail, space, " ");
          }));
  }
  for (const auto& [name, character] : std::vector<std::pair<std::string, std::string>>{
           {"a space", " "}, {"a tab", "\t"}, {"a newline", "\n"}, {"a carriage return", "\r"}}) {
    plant(bugs, "ST-006", fmt::format("refuses {} in the header", name), [space = character](SafetensorsDraft& draft) {
      const std::string text = write(draft.root);
      return replaced_outside_strings(text, space, "") == text;
    });
  }
  plant(bugs, "ST-006", "takes /* */ for white space",
        takes([](SafetensorsDraft& draft) { set_header(draft, without_comments(header_text(draft), "/*", "*/")); }));
  plant(bugs, "ST-006", "takes // to the end of the line for white space",
        takes([](SafetensorsDraft& draft) { set_header(draft, without_comments(header_text(draft), "//", "\n")); }));
  plant(bugs, "ST-006", "takes # to the end of the line for white space",
        takes([](SafetensorsDraft& draft) { set_header(draft, without_comments(header_text(draft), "#", "\n")); }));
}

void add_ends(SafetensorsBugs& bugs) {
  plant(bugs, "ST-007", "ignores whatever follows the object", takes([](SafetensorsDraft& d) { d.tail.clear(); }));
  plant(bugs, "ST-007", "ignores an object that follows the object", takes([](SafetensorsDraft& draft) {
          if (draft.tail.find('{') != draft.tail.npos) draft.tail.clear();
        }));
  plant(bugs, "ST-007", "refuses spaces behind the object",
        [](SafetensorsDraft& draft) { return draft.tail.find(' ') == draft.tail.npos; });
  plant(bugs, "ST-007", "refuses a header that is no multiple of 8 bytes",
        [](SafetensorsDraft& draft) { return header_text(draft).size() % 8 == 0; });
  plant(bugs, "ST-007", "refuses a header whose padding is longer than 7 bytes",
        [](SafetensorsDraft& draft) { return draft.tail.size() < 8; });
  plant(bugs, "ST-005", "skips whatever precedes the first brace", takes([](SafetensorsDraft& d) { d.lead.clear(); }));
  plant(bugs, "ST-006", "refuses a header without a tensor",
        [](SafetensorsDraft& draft) { return !tensor_places(draft).empty(); });
  for (const std::size_t count : {1, 2, 3, 99, 255, 512, 999}) {
    plant(bugs, "ST-006", fmt::format("refuses more than {} tensors", count),
          [count](SafetensorsDraft& draft) { return tensor_places(draft).size() <= count; });
  }
  for (const std::size_t bytes : {64, 1024, 4096, 32768}) {
    plant(bugs, "ST-002", fmt::format("refuses a header of more than {} bytes", bytes),
          [bytes](SafetensorsDraft& draft) { return header_text(draft).size() <= bytes; });
  }
}

void add_length(SafetensorsBugs& bugs) {
  const auto reads_length = [&bugs](const std::string& rule, const std::string& name, auto&& read) {
    plant(bugs, rule, name, takes([read](SafetensorsDraft& draft) {
            const std::uint64_t right = header_text(draft).size();
            draft.length_difference = read(right + draft.length_difference, right, draft.data.bytes.size()) - right;
          }));
  };
  reads_length("ST-003", "reads the length of the header in 32 bits",
               [](std::uint64_t length, std::uint64_t, std::uint64_t) { return length & 0xffffffff; });
  reads_length("ST-003", "reads the length of the header in 31 bits",
               [](std::uint64_t length, std::uint64_t, std::uint64_t) { return length & 0x7fffffff; });
  reads_length("ST-003", "reads the length of the header in 63 bits",
               [](std::uint64_t length, std::uint64_t, std::uint64_t) { return length << 1 >> 1; });
  reads_length("ST-003", "reads the length of the header in 56 bits",
               [](std::uint64_t length, std::uint64_t, std::uint64_t) { return length << 8 >> 8; });
  reads_length("ST-003", "reads the length of the header in 16 bits",
               [](std::uint64_t length, std::uint64_t, std::uint64_t) { return length & 0xffff; });
  reads_length("ST-003", "reads the length of the header in 53 bits",
               [](std::uint64_t length, std::uint64_t, std::uint64_t) { return length << 11 >> 11; });
  reads_length(
      "ST-003", "reads what is there of a header that leads out of the file",
      [](std::uint64_t length, std::uint64_t right, std::uint64_t data) { return std::min(length, right + data); });
  reads_length("ST-003", "takes a header that ends one byte behind the file",
               [](std::uint64_t length, std::uint64_t right, std::uint64_t data) {
                 return length == right + data + 1 ? length - 1 : length;
               });
  reads_length("ST-002", "takes a length above the limit for what is there",
               [](std::uint64_t length, std::uint64_t right, std::uint64_t data) {
                 return length > 100'000'000 ? right + data : length;
               });
}

void add_structure(SafetensorsBugs& bugs) {
  struct Mistake {
    std::string_view name;
    void (*mend)(JsonValue& value);
  };
  static constexpr std::array kMistakes = {
      Mistake{"takes a comma at the end",
              [](JsonValue& value) {
                if (value.items.size() < 2 || !write(value.items.back().value).empty()) return;
                value.items.pop_back();
                value.items.back().has_comma = false;
              }},
      Mistake{"takes two commas for one",
              [](JsonValue& value) {
                const auto is_empty = [](const JsonItem& item) {
                  return item.has_comma && !item.has_colon && write(item.value).empty();
                };
                std::erase_if(value.items, is_empty);
              }},
      Mistake{"needs no comma",
              [](JsonValue& value) {
                if (!value.items.empty()) mutation::separate(value.items);
              }},
      Mistake{"takes a semicolon for a comma",
              [](JsonValue& value) {
                std::vector<JsonItem> items;
                for (JsonItem& item : value.items) {
                  std::string& text = item.value.scalar;
                  const std::size_t at = text.starts_with('"') ? text.npos : text.find(';');
                  const std::string rest = at == text.npos ? "" : text.substr(at + 1);
                  const bool has_comma = item.has_comma;
                  // A bracket or a string before it leaves it alone.
                  const bool is_alone =
                      at == 0 && item.value.kind == Kind::kScalar && !item.has_colon && !items.empty();
                  if (at != text.npos) text.erase(at), item.has_comma = true;
                  if (is_alone) {
                    items.back().has_comma = true;
                  } else {
                    items.push_back(item);
                  }
                  if (rest.empty()) continue;
                  items.push_back(mutation::element(rest));
                  items.back().has_comma = has_comma;
                }
                value.items = std::move(items);
              }},
  };
  for (const Mistake& mistake : kMistakes) {
    for (const Place place : kContainers) {
      plant(bugs, "ST-006", fmt::format("{} {}", mistake.name, words_of(place)),
            takes([place, mend = mistake.mend](SafetensorsDraft& draft) { for_each_container(draft, place, mend); }));
    }
  }
  plant(bugs, "ST-006", "takes containers that are not closed at the end", takes([](SafetensorsDraft& draft) {
          for (const Place place : kContainers) {
            for_each_container(draft, place, [](JsonValue& value) { value.is_closed = true; });
          }
        }));
  for (const Place place : {Place::kTensor, Place::kIgnored}) {
    plant(bugs, "ST-006", fmt::format("takes a key without a value for one with null {}", words_of(place)),
          takes([place](SafetensorsDraft& draft) {
            for_each_container(draft, place, [](JsonValue& value) {
              for (JsonItem& item : value.items) {
                if (item.has_colon && write(item.value).empty()) item.value.scalar = "null";
              }
            });
          }));
  }
  for (const unsigned depth : {1U, 2U, 3U, 4U, 16U, 31U, 64U, 100U, 125U, 126U}) {
    plant(bugs, "ST-006", fmt::format("refuses values that nest more than {} deep", depth),
          [depth](SafetensorsDraft& draft) {
            const std::function<unsigned(const JsonValue&)> depth_of = [&](const JsonValue& value) {
              unsigned deepest = 0;
              for (const JsonItem& item : value.items) deepest = std::max(deepest, depth_of(item.value));
              return value.kind == Kind::kScalar ? 0 : deepest + 1;
            };
            return depth_of(draft.root) <= depth;
          });
  }
  // The outermost levels that are too many are taken off.
  for (const unsigned depth : {128U, 129U, 200U}) {
    plant(bugs, "ST-006", fmt::format("takes values that nest {} deep", depth), takes([depth](SafetensorsDraft& draft) {
            for_each_container(draft, Place::kIgnored, [depth](JsonValue& value) {
              unsigned deep = 0;
              for (const JsonValue* inner = &value; !inner->items.empty(); inner = &inner->items.front().value) ++deep;
              // One level is the header's, and one the tensor's.
              if (deep > 120 && deep + 2 < depth + 1) value.items.clear();
            });
          }));
  }
}

// The string without its quotes, and back.
template <typename Change>
void change_content(std::string& written, const Change& change) {
  if (written.size() < 2) return;
  written = '"' + change(written.substr(1, written.size() - 2)) + '"';
}

std::string with_escapes(std::string text, char character) {
  std::string result;
  for (const char c : text) result += c == character ? fmt::format("\\u{:04x}", unsigned(c)) : std::string(1, c);
  return result;
}

// U+FFFD for what is no UTF-8 and passes the test.
template <typename Test>
std::string mended(const std::string& text, const Test& is_taken) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t bytes = 1;
    while (bytes <= 4 && i + bytes <= text.size() && !model::is_utf8(text.substr(i, bytes))) ++bytes;
    if (bytes <= 4 && i + bytes <= text.size()) {
      result += text.substr(i, bytes);
      i += bytes;
      continue;
    }
    const bool is_replaced = is_taken(static_cast<unsigned char>(text[i]), text.substr(i));
    const std::size_t begin = i++;
    // With what continues it.
    while (i < text.size() && (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80) ++i;
    result += is_replaced ? "\xef\xbf\xbd" : text.substr(begin, i - begin);
  }
  return result;
}

// Replaces each escape for which the function gives a text.
template <typename Instead>
std::string with_other_escapes(const std::string& text, const Instead& instead) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      result += text[i++];
      continue;
    }
    const std::size_t size = text[i + 1] == 'u' ? std::min<std::size_t>(6, text.size() - i) : 2;
    const std::string escape = text.substr(i, size), before = i >= 6 ? text.substr(i - 6, 6) : "";
    const std::optional<std::string> other = instead(escape, before, text.substr(i + size));
    result += other.value_or(escape);
    i += size;
  }
  return result;
}

bool is_escape_from(std::string_view escape, std::string_view least, std::string_view most) {
  std::string lower(escape);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower.size() == 6 && lower.starts_with("\\u") && lower.substr(2) >= least && lower.substr(2) <= most;
}
bool is_high(std::string_view escape) { return is_escape_from(escape, "d800", "dbff"); }
bool is_low(std::string_view escape) { return is_escape_from(escape, "dc00", "dfff"); }

using StringMistake = std::pair<std::string, std::function<std::string(const std::string&)>>;

std::vector<StringMistake> mistakes_of_strings() {
  using Text = std::string;
  using Found = std::optional<std::string>;
  std::vector<StringMistake> all = {
      {"takes a NUL", [](const Text& text) { return with_escapes(text, '\0'); }},
      {"takes a newline", [](const Text& text) { return with_escapes(text, '\n'); }},
      {"takes a tab", [](const Text& text) { return with_escapes(text, '\t'); }},
      {"takes U+001F", [](const Text& text) { return with_escapes(text, '\x1f'); }},
      {"takes an unknown escape for its letter",
       [](const Text& text) {
         return with_other_escapes(text, [](const Text& escape, const Text&, const Text&) -> Found {
           if (std::string_view("\"\\/bfnrtu").find(escape[1]) != std::string_view::npos) return std::nullopt;
           return escape.substr(1);
         });
       }},
      {"takes an escape of fewer than four digits",
       [](const Text& text) {
         return with_other_escapes(text, [](const Text& escape, const Text&, const Text&) -> Found {
           if (escape[1] != 'u') return std::nullopt;
           const std::size_t digits = escape.find_first_not_of("0123456789abcdefABCDEF", 2);
           if (digits == escape.npos && escape.size() == 6) return std::nullopt;
           return "\\u0041" + escape.substr(std::min(digits, escape.size()));
         });
       }},
      {"takes a high surrogate alone",
       [](const Text& text) {
         return with_other_escapes(text, [](const Text& escape, const Text&, const Text& after) -> Found {
           return is_high(escape) && !is_low(after.substr(0, 6)) ? Found("\\ufffd") : std::nullopt;
         });
       }},
      {"takes a low surrogate alone",
       [](const Text& text) {
         return with_other_escapes(text, [](const Text& escape, const Text& before, const Text&) -> Found {
           return is_low(escape) && !is_high(before) ? Found("\\ufffd") : std::nullopt;
         });
       }},
      {"does not decode \\u",
       [](const Text& text) {
         return with_other_escapes(text, [](const Text& escape, const Text&, const Text&) -> Found {
           return escape[1] == 'u' ? Found("\\\\" + escape.substr(1)) : std::nullopt;
         });
       }},
      {"takes a byte that begins no character",
       [](const Text& text) {
         return mended(text, [](unsigned char c, const Text&) { return (c & 0xc0) == 0x80 || c > 0xf7; });
       }},
      {"takes an overlong character",
       [](const Text& text) {
         return mended(text, [](unsigned char c, const Text& rest) {
           const auto next = static_cast<unsigned char>(rest.size() > 1 ? rest[1] : 0);
           return c == 0xc0 || c == 0xc1 || (c == 0xe0 && next < 0xa0) || (c == 0xf0 && next < 0x90);
         });
       }},
      {"takes a surrogate in UTF-8",
       [](const Text& text) {
         return mended(text, [](unsigned char c, const Text& rest) {
           return c == 0xed && rest.size() > 1 && static_cast<unsigned char>(rest[1]) >= 0xa0;
         });
       }},
      {"takes a character that is cut",
       [](const Text& text) {
         return mended(text, [](unsigned char c, const Text& rest) {
           const std::size_t wanted = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
           std::size_t there = 1;
           while (there < rest.size() && (static_cast<unsigned char>(rest[there]) & 0xc0) == 0x80) ++there;
           return c >= 0xc2 && c <= 0xf4 && there < wanted;
         });
       }},
      {"takes a character above U+10FFFF",
       [](const Text& text) {
         return mended(text, [](unsigned char c, const Text& rest) {
           return (c == 0xf4 && rest.size() > 1 && static_cast<unsigned char>(rest[1]) >= 0x90) ||
                  (c > 0xf4 && c < 0xf8);
         });
       }},
  };
  return all;
}

void add_strings(SafetensorsBugs& bugs) {
  const auto rule_of = [](const std::string& name) {
    const bool is_utf8 = name.find("character") != name.npos || name.find("UTF-8") != name.npos;
    return is_utf8 ? "ST-004" : "ST-006";
  };
  for (const auto& [name, mistake] : mistakes_of_strings()) {
    for (const Place place : kStrings) {
      // A dtype with anything else in it is none of the format, however it is read.
      if (place == Place::kDtype && !name.starts_with("does not decode")) continue;
      plant(bugs, rule_of(name), fmt::format("{} {}", name, words_of(place)),
            takes([place, change = mistake](SafetensorsDraft& draft) {
              for_each_string(draft, place, [&](std::string& text) { change_content(text, change); });
            }));
    }
  }
  const std::vector<std::pair<std::string, std::function<bool(const std::string&)>>> refusals = {
      {"refuses an escape", [](const std::string& text) { return text.find('\\') == text.npos; }},
      {"refuses what is not ASCII",
       [](const std::string& text) {
         return std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
       }},
      {"refuses the escape of a surrogate pair",
       [](const std::string& text) { return text.find("\\ud8") == text.npos && text.find("\\uD8") == text.npos; }},
      {"refuses \\/", [](const std::string& text) { return text.find("\\/") == text.npos; }},
      {"refuses \\u0000", [](const std::string& text) { return text.find("\\u0000") == text.npos; }},
      {"refuses DEL", [](const std::string& text) { return text.find('\x7f') == text.npos; }},
      {"refuses upper-case digits of an escape",
       [](const std::string& text) {
         return with_other_escapes(text,
                                   [](const std::string& escape, const std::string&,
                                      const std::string&) -> std::optional<std::string> {
                                     const bool has = escape.find_first_of("ABCDEF", 2) != escape.npos;
                                     return escape[1] == 'u' && has ? std::optional<std::string>("") : std::nullopt;
                                   }) == text;
       }},
      {"refuses an empty string", [](const std::string& text) { return text != "\"\""; }},
  };
  for (const auto& [name, accepts] : refusals) {
    for (const Place place : {Place::kTensorName, Place::kMetadata, Place::kMetadataText, Place::kIgnored}) {
      plant(bugs, place == Place::kMetadata || place == Place::kMetadataText ? "ST-009" : "ST-006",
            fmt::format("{} {}", name, words_of(place)), [place, is_taken = accepts](SafetensorsDraft& draft) {
              bool all = true;
              for_each_string(draft, place, [&](std::string& text) { all = all && is_taken(text); });
              return all;
            });
    }
  }
}

void add_names(SafetensorsBugs& bugs) {
  for (const std::size_t bytes : {63, 127, 255, 1023, 4095, 65535}) {
    plant(bugs, "ST-006", fmt::format("refuses a name of more than {} bytes", bytes), [bytes](SafetensorsDraft& draft) {
      bool all = true;
      for_each_string(draft, Place::kTensorName, [&](std::string& text) { all = all && text.size() <= bytes + 2; });
      return all;
    });
    if (bytes == 65535) continue;
    plant(bugs, "ST-006", fmt::format("cuts a name after {} bytes", bytes), takes([bytes](SafetensorsDraft& draft) {
            for_each_string(draft, Place::kTensorName, [&](std::string& text) {
              change_content(text, [&](const std::string& name) { return name.substr(0, bytes); });
            });
          }));
  }
  for (const char c : {'/', '.', ' ', '\'', ':', '$'}) {
    plant(bugs, "ST-006", fmt::format("refuses a name with '{}'", c), [c](SafetensorsDraft& draft) {
      bool all = true;
      for_each_string(draft, Place::kTensorName, [&](std::string& text) { all = all && text.find(c) == text.npos; });
      return all;
    });
  }
  const auto renames = [&bugs](const std::string& rule, const std::string& name, auto&& change) {
    plant(bugs, rule, name, takes([change](SafetensorsDraft& draft) {
            for_each_string(draft, Place::kTensorName, [&](std::string& text) { change_content(text, change); });
          }));
  };
  renames("ST-006", "ends a name at \\u0000",
          [](const std::string& name) { return name.substr(0, name.find("\\u0000")); });
  renames("ST-006", "strips white space around a name", [](std::string name) {
    name.erase(0, std::min(name.find_first_not_of(' '), name.size()));
    name.erase(name.find_last_not_of(' ') + 1);
    return name;
  });
  renames("ST-006", "keeps names in lower case", [](std::string name) {
    std::ranges::transform(name, name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
    return name;
  });
  renames("ST-006", "keeps / in a name as a dot", [](std::string name) {
    std::ranges::replace(name, '/', '.');
    return name;
  });
  renames("ST-006", "composes e and an acute accent", [](std::string name) {
    for (std::size_t at = 0; (at = name.find("e\xcc\x81")) != name.npos;) name.replace(at, 3, "\xc3\xa9");
    return name;
  });
  const auto is_metadata_too = [&bugs](const std::string& name, auto&& test) {
    plant(bugs, "ST-009", name, takes([test](SafetensorsDraft& draft) {
            std::erase_if(draft.root.items, [&](const JsonItem& item) {
              return item.key != "\"__metadata__\"" && item.value.kind == Kind::kObject && test(item.key);
            });
            if (!draft.root.items.empty()) mutation::separate(draft.root.items);
          }));
  };
  is_metadata_too("takes __METADATA__ for metadata", [](const std::string& key) { return key == "\"__METADATA__\""; });
  is_metadata_too("takes __metadata__ with a space for metadata",
                  [](const std::string& key) { return key.starts_with("\"__metadata__ "); });
  is_metadata_too("takes any name that begins with __ for metadata",
                  [](const std::string& key) { return key.starts_with("\"__"); });
  plant(bugs, "ST-009", "knows __metadata__ only by its plain spelling", takes([](SafetensorsDraft& draft) {
          for (JsonItem& item : draft.root.items) {
            if (item.key.find("\\u005f") != item.key.npos || item.key.find("\\u005F") != item.key.npos) {
              item.value.scalar = "0", item.value.kind = Kind::kScalar, item.value.items.clear();
            }
          }
        }));
}

void add_ignored_values(SafetensorsBugs& bugs) {
  const std::vector<std::pair<std::string, std::function<bool(const std::string&)>>> sorts = {
      {"NaN", [](const std::string& text) { return text == "NaN" || text == "nan"; }},
      {"Infinity", [](const std::string& text) { return text == "Infinity" || text == "inf"; }},
      {"-Infinity", [](const std::string& text) { return text == "-Infinity" || text == "-inf"; }},
      {"a number with leading zeros",
       [](const std::string& text) { return text.size() > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9'; }},
      {"a hexadecimal number",
       [](const std::string& text) { return text.starts_with("0x") || text.starts_with("0X"); }},
      {"a number with a plus", [](const std::string& text) { return text.size() > 1 && text[0] == '+'; }},
      {"a number that ends in a point", [](const std::string& text) { return text.size() > 1 && text.ends_with('.'); }},
      {"a number that begins with a point", [](const std::string& text) { return text.size() > 1 && text[0] == '.'; }},
      {"a number without digits of its exponent",
       [](const std::string& text) {
         return text.size() > 1 && (text.ends_with('e') || text.ends_with('E') || text.ends_with("e+"));
       }},
      {"a minus alone", [](const std::string& text) { return text == "-"; }},
      {"a number beyond all floats",
       [](const std::string& text) {
         return text.find("e999") != text.npos || text.find("e400") != text.npos || text.find("e309") != text.npos ||
                text.size() > 310;
       }},
      {"True, False or None",
       [](const std::string& text) { return text == "True" || text == "False" || text == "None"; }},
      {"undefined", [](const std::string& text) { return text == "undefined"; }},
      {"a word in upper case",
       [](const std::string& text) { return text == "NULL" || text == "TRUE" || text == "FALSE"; }},
      {"a text in single quotes",
       [](const std::string& text) { return text.size() > 1 && text[0] == '\'' && text.ends_with('\''); }},
      {"nothing", [](const std::string& text) { return text.empty(); }},
      {"a number with underscores",
       [](const std::string& text) {
         return text.size() > 1 && text[0] >= '0' && text[0] <= '9' && text.find('_') != text.npos;
       }},
  };
  for (const auto& [name, is_of_sort] : sorts) {
    plant(bugs, "ST-006", fmt::format("takes {} {}", name, words_of(Place::kIgnored)),
          takes([test = is_of_sort](SafetensorsDraft& draft) {
            for_each_scalar(draft, Place::kIgnored, [&](JsonValue& value, std::size_t) {
              if (test(value.scalar)) value.scalar = "0";
            });
          }));
  }
  plant(bugs, "ST-006", "takes keys without quotation marks", takes([](SafetensorsDraft& draft) {
          for (const Place place : kContainers) {
            for_each_container(draft, place, [](JsonValue& value) {
              for (JsonItem& item : value.items) {
                if (item.has_colon && !item.key.empty() && item.key.front() != '"' && item.key.front() != '\'') {
                  item.key = '"' + item.key + '"';
                }
              }
            });
          }
        }));
  plant(bugs, "ST-006", "takes keys in single quotes", takes([](SafetensorsDraft& draft) {
          set_header(draft, replaced_outside_strings(header_text(draft), "'", "\""));
        }));
}

}  // namespace

SafetensorsBugs bugs_of_header() {
  SafetensorsBugs bugs;
  add_length(bugs);
  add_ends(bugs);
  add_white_space(bugs);
  add_structure(bugs);
  add_strings(bugs);
  add_names(bugs);
  add_ignored_values(bugs);
  return bugs;
}

}  // namespace tzmark::conformance::planted
