// Mistakes with the metadata of a safetensors file, and with what an object has twice; see safetensors_bugs.h.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "planted_bugs/safetensors_bugs.h"

namespace tzmark::conformance::planted {
namespace {

using mutation::JsonItem;
using mutation::JsonValue;
using mutation::SafetensorsDraft;
using Kind = JsonValue::Kind;

void add_metadata(SafetensorsBugs& bugs) {
  const std::vector<std::pair<std::string, std::function<bool(const JsonValue&)>>> sorts = {
      {"a number",
       [](const JsonValue& v) {
         return std::string_view("-0123456789").find(v.scalar.front()) != std::string_view::npos;
       }},
      {"true or false", [](const JsonValue& v) { return v.scalar == "true" || v.scalar == "false"; }},
      {"null", [](const JsonValue& v) { return v.scalar == "null"; }},
  };
  for (const auto& [name, is_of_sort] : sorts) {
    plant(bugs, "ST-009", fmt::format("takes {} for a text of the metadata", name),
          takes([test = is_of_sort](SafetensorsDraft& draft) {
            for_each_scalar(draft, Place::kMetadata, [&](JsonValue& value, std::size_t) {
              if (!value.scalar.empty() && test(value)) value.scalar = '"' + value.scalar + '"';
            });
          }));
  }
  for (const Kind kind : {Kind::kObject, Kind::kArray}) {
    plant(bugs, "ST-009",
          fmt::format("takes {} for a text of the metadata", kind == Kind::kObject ? "an object" : "a list"),
          takes([kind](SafetensorsDraft& draft) {
            for_each_container(draft, Place::kMetadata, [&](JsonValue& metadata) {
              for (JsonItem& item : metadata.items) {
                if (item.value.kind == kind) item.value = mutation::scalar("\"\"");
              }
            });
          }));
  }
  const auto takes_metadata = [&bugs](const std::string& name, auto&& test) {
    plant(bugs, "ST-009", name, takes([test](SafetensorsDraft& draft) {
            for (JsonItem& item : draft.root.items) {
              if (item.key == "\"__metadata__\"" && test(item.value)) item.value = mutation::split_json("{}");
            }
          }));
  };
  takes_metadata("takes a list for metadata", [](const JsonValue& value) { return value.kind == Kind::kArray; });
  takes_metadata("takes a string for metadata", [](const JsonValue& value) { return value.scalar.starts_with('"'); });
  takes_metadata("takes a number for metadata", [](const JsonValue& value) {
    return !value.scalar.empty() && value.scalar.front() >= '0' && value.scalar.front() <= '9';
  });
  takes_metadata("takes true or false for metadata",
                 [](const JsonValue& value) { return value.scalar == "true" || value.scalar == "false"; });
  takes_metadata("does not look into metadata", [](const JsonValue&) { return true; });
  const auto refuses_metadata = [&bugs](const std::string& name, auto&& is_taken) {
    plant(bugs, "ST-009", name, [is_taken](SafetensorsDraft& draft) {
      const auto found = std::ranges::find(draft.root.items, "\"__metadata__\"", &JsonItem::key);
      return is_taken(draft, found == draft.root.items.end() ? nullptr : &*found);
    });
  };
  refuses_metadata("refuses a file without metadata",
                   [](const SafetensorsDraft&, const JsonItem* item) { return item != nullptr; });
  refuses_metadata("refuses metadata", [](const SafetensorsDraft&, const JsonItem* item) { return item == nullptr; });
  refuses_metadata("refuses empty metadata", [](const SafetensorsDraft&, const JsonItem* item) {
    return item == nullptr || !item->value.items.empty();
  });
  refuses_metadata("refuses metadata that are not first", [](const SafetensorsDraft& draft, const JsonItem* item) {
    return item == nullptr || item == &draft.root.items.front();
  });
  refuses_metadata("refuses metadata without a format", [](const SafetensorsDraft&, const JsonItem* item) {
    return item == nullptr || find(item->value, "format") != nullptr;
  });
  for (const std::size_t count : {1, 8, 16, 99}) {
    refuses_metadata(fmt::format("refuses more than {} metadata", count),
                     [count](const SafetensorsDraft&, const JsonItem* item) {
                       return item == nullptr || item->value.items.size() <= count;
                     });
  }
  for (const std::size_t bytes : {63, 255, 1023}) {
    refuses_metadata(fmt::format("refuses a text of more than {} bytes in the metadata", bytes),
                     [bytes](const SafetensorsDraft&, const JsonItem* item) {
                       return item == nullptr || std::ranges::all_of(item->value.items, [&](const JsonItem& each) {
                                return each.value.scalar.size() <= bytes + 2;
                              });
                     });
  }
}

// A mistake with the content of the metadata: a text without its quotation marks, as it is written.
using Rewrite = std::function<std::string(std::string)>;

Rewrite cut_after(std::size_t bytes) {
  return [bytes](std::string text) {
    if (text.size() > bytes) text.resize(bytes);
    return text;
  };
}

std::string without_spaces_around(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(' ');
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

void add_texts(SafetensorsBugs& bugs) {
  const std::vector<std::pair<std::string, Rewrite>> rewrites = {
      {"loses", [](const std::string&) { return std::string(); }},
      {"turns to lower case",
       [](std::string text) {
         std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
         return text;
       }},
      {"loses the spaces around", without_spaces_around},
      {"cuts after 63 bytes", cut_after(63)},
      {"cuts after 255 bytes", cut_after(255)},
      {"loses all but ASCII of",
       [](std::string text) {
         std::erase_if(text, [](unsigned char c) { return c >= 0x80; });
         return text;
       }},
      {"cuts at a NUL", [](const std::string& text) { return text.substr(0, text.find("\\u0000")); }},
      {"keeps the escapes of",
       [](const std::string& text) {
         std::string escaped;
         for (const char c : text) escaped += c == '\\' ? "\\\\" : std::string(1, c);
         return escaped;
       }},
  };
  for (const auto& [name, rewrite] : rewrites) {
    for (const Place place : {Place::kMetadata, Place::kMetadataText}) {
      const std::string what = place == Place::kMetadata ? "a key" : "a text";
      plant(bugs, "ST-009", fmt::format("{} {} of the metadata", name, what),
            takes([place, change = rewrite](SafetensorsDraft& draft) {
              for_each_string(draft, place, [&](std::string& text) {
                if (text.size() > 1 && text.front() == '"') text = '"' + change(text.substr(1, text.size() - 2)) + '"';
              });
            }));
    }
  }
  const auto changes = [&bugs](const std::string& name, auto&& change) {
    plant(bugs, "ST-009", name, takes([change](SafetensorsDraft& draft) {
            for_each_container(draft, Place::kMetadata, [&](JsonValue& metadata) {
              if (metadata.kind != Kind::kObject || metadata.items.empty()) return;
              change(metadata.items);
              if (!metadata.items.empty()) mutation::separate(metadata.items);
            });
          }));
  };
  using Items = std::vector<JsonItem>;
  changes("returns no metadata", [](Items& items) { items.clear(); });
  changes("loses the first of the metadata", [](Items& items) { items.erase(items.begin()); });
  changes("loses the last of the metadata", [](Items& items) { items.pop_back(); });
  changes("returns only the format of the metadata",
          [](Items& items) { std::erase_if(items, [](const JsonItem& item) { return item.key != "\"format\""; }); });
  changes("loses the format of the metadata",
          [](Items& items) { std::erase_if(items, [](const JsonItem& item) { return item.key == "\"format\""; }); });
  changes("gives each of the metadata the first text", [](Items& items) {
    for (JsonItem& item : items) item.value = items.front().value;
  });
  changes("gives each of the metadata the text of the next", [](Items& items) {
    for (std::size_t i = 0; i + 1 < items.size(); ++i) std::swap(items[i].value, items[i + 1].value);
  });
}

// A key without its escapes, as far as those of single bytes go.
std::string unescaped(const std::string& key) {
  std::string text;
  for (std::size_t i = 0; i < key.size(); ++i) {
    unsigned code = 0;
    const std::string_view digits = std::string_view(key).substr(std::min(key.size(), i + 4), 2);
    const bool is_escape = key.compare(i, 4, "\\u00") == 0 && digits.size() == 2;
    const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (is_escape && error == std::errc() && rest == digits.data() + 2) {
      text += static_cast<char>(code);
      i += 5;
    } else {
      text += key[i];
    }
  }
  return text;
}

enum class Counts { kFirst, kLast };

// Of several members of one key, one counts. Readers compare keys without their escapes, or not.
void drop_repeats(JsonValue& object, Counts counts, bool as_written,
                  const std::function<bool(const std::string&)>& test) {
  std::map<std::string, std::size_t> places;
  std::set<std::size_t> dropped;
  for (std::size_t i = 0; i < object.items.size(); ++i) {
    const JsonItem& item = object.items[i];
    const std::string key = unescaped(item.key);
    if (!item.has_colon || !test(key)) continue;
    const auto [found, is_new] = places.try_emplace(key, i);
    if (is_new || (as_written && object.items[found->second].key == item.key)) continue;
    dropped.insert(counts == Counts::kFirst ? i : found->second);
    if (counts == Counts::kLast) found->second = i;
  }
  std::vector<JsonItem> kept;
  for (std::size_t i = 0; i < object.items.size(); ++i) {
    if (!dropped.contains(i)) kept.push_back(std::move(object.items[i]));
  }
  object.items = std::move(kept);
  if (!dropped.empty()) mutation::separate(object.items);
}

void add_repeats(SafetensorsBugs& bugs) {
  struct Sort {
    std::string name;
    Place place;
    std::function<bool(const std::string&)> test;
  };
  const auto is = [](std::string wanted) { return [wanted](const std::string& key) { return key == wanted; }; };
  const std::vector<Sort> sorts = {
      {"tensors of one name", Place::kRoot, [](const std::string& key) { return key != "\"__metadata__\""; }},
      {"metadata", Place::kRoot, is("\"__metadata__\"")},
      {"dtypes of a tensor", Place::kTensor, is("\"dtype\"")},
      {"shapes of a tensor", Place::kTensor, is("\"shape\"")},
      {"data_offsets of a tensor", Place::kTensor, is("\"data_offsets\"")},
      {"unknown members of a tensor", Place::kTensor,
       [](const std::string& key) { return key != "\"dtype\"" && key != "\"shape\"" && key != "\"data_offsets\""; }},
      {"texts of the metadata", Place::kMetadata, [](const std::string&) { return true; }},
      {"members of an ignored value", Place::kIgnored, [](const std::string&) { return true; }},
  };
  for (const Sort& sort : sorts) {
    for (const auto counts : {Counts::kFirst, Counts::kLast}) {
      for (const bool as_written : {false, true}) {
        plant(bugs, "ST-008",
              fmt::format("takes the {} of several {}{}", counts == Counts::kFirst ? "first" : "last", sort.name,
                          as_written ? ", if they are spelled in several ways" : ""),
              takes([sort, counts, as_written](SafetensorsDraft& draft) {
                for_each_container(draft, sort.place, [&](JsonValue& value) {
                  if (value.kind == Kind::kObject) drop_repeats(value, counts, as_written, sort.test);
                });
              }));
      }
    }
  }
}

}  // namespace

SafetensorsBugs bugs_of_metadata() {
  SafetensorsBugs bugs;
  add_metadata(bugs);
  add_texts(bugs);
  add_repeats(bugs);
  return bugs;
}

}  // namespace tzmark::conformance::planted
