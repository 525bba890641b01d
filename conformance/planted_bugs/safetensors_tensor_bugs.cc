// Mistakes with numbers, dtypes, shapes and sizes of a safetensors file; see safetensors_bugs.h.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

#include "planted_bugs/safetensors_bugs.h"
#include "safetensors_model/dtypes.h"

namespace tzmark::conformance::planted {
namespace {

using mutation::JsonItem;
using mutation::JsonValue;
using mutation::SafetensorsDraft;
using Kind = JsonValue::Kind;
using Numbers = std::vector<std::uint64_t>;

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || rest != text.data() + text.size()) return std::nullopt;
  return number;
}

bool is_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// A number in decimal that may have a sign, a point and an exponent; nothing for any other text.
std::optional<double> decimal(const std::string& text) {
  if (text.find_first_not_of("+-.0123456789eE") != text.npos || text.empty()) return std::nullopt;
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  return *end == '\0' ? std::optional(number) : std::nullopt;
}

// Digits of any number, in 64 bits.
std::uint64_t wrapped(std::string_view digits) {
  std::uint64_t number = 0;
  for (const char c : digits) number = number * 10 + static_cast<std::uint64_t>(c - '0');
  return number;
}

struct NumberMistake {
  std::string_view name;
  // What a number is taken for; nothing if that is no mistake.
  std::optional<std::uint64_t> (*read)(const std::string& text);
};

constexpr std::
    array
        kNumberMistakes =
            {
                NumberMistake{"takes a number with a point for a whole one",
                              [](const std::string& text) -> std::optional<std::uint64_t> {
                                const auto number = decimal(text);
                                const bool has_point =
                                    text.find('.') != text.npos && text.find_first_of("eE") == text.npos;
                                if (!number || !has_point || *number < 0 || *number != std::floor(*number))
                                  return std::nullopt;
                                return static_cast<std::uint64_t>(*number);
                              }},
                NumberMistake{"cuts a number at its point",
                              [](const std::string& text) -> std::optional<std::uint64_t> {
                                const auto number = decimal(text);
                                const bool has_point =
                                    text.find('.') != text.npos && text.find_first_of("eE") == text.npos;
                                if (!number || !has_point || *number < 0) return std::nullopt;
                                return static_cast<std::uint64_t>(*number);
                              }},
                NumberMistake{"takes a number with an exponent for a whole one",
                              [](const std::string& text) -> std::optional<std::uint64_t> {
                                const auto number = decimal(text);
                                if (!number || text.find_first_of("eE") == text.npos || *number < 0 || *number > 1e15) {
                                  return std::nullopt;
                                }
                                return static_cast<std::uint64_t>(*number);
                              }},
                NumberMistake{"takes -0 for 0",
                              [](const std::string& text) -> std::optional<std::uint64_t> {
                                return text == "-0" ? std::optional<std::uint64_t>(0) : std::nullopt;
                              }},
                NumberMistake{"keeps a number below 0 in 64 bits",
                              [](const std::string& text) -> std::optional<std::uint64_t> {
                                if (!text.starts_with('-') || !is_digits(text.substr(1)) || text == "-0")
                                  return std::nullopt;
                                return std::uint64_t{0} - wrapped(text.substr(1));
                              }},
                NumberMistake{"ignores a minus",
                              [](const std::string& text) -> std::optional<std::uint64_t> {
                                if (!text.starts_with('-') || !is_digits(text.substr(1))) return std::nullopt;
                                return whole_number(text.substr(1));
                              }},
                NumberMistake{"takes a number below 0 for 0",
                              [](const std::string& text) -> std::optional<std::uint64_t> {
                                if (!text.starts_with('-') || !is_digits(text.substr(1)) || text == "-0")
                                  return std::nullopt;
                                return 0;
                              }},
                NumberMistake{"ignores leading zeros",
                              [](
                                  const std::string& text) -> std::
                                                               optional<std::uint64_t> {
                                                                 if (text.size() < 2 || text[0] != '0' ||
                                                                     !is_digits(text))
                                                                   return std::nullopt;
                                                                 return whole_number(text);
                                                               }},
                NumberMistake{"reads leading zeros as octal",
                              [](const std::string& text) -> std::optional<std::uint64_t> {
                                if (text.size() < 2 || text[0] != '0' ||
                                    text.find_first_not_of("01234567") != text.npos) {
                                  return std::nullopt;
                                }
                                return std::stoull(text, nullptr, 8);
                              }},
                NumberMistake{
                    "ignores a plus",
                    [](
                        const std::string& text) -> std::
                                                     optional<std::uint64_t> {
                                                       return text.starts_with('+') ? whole_number(text.substr(1))
                                                                                    : std::nullopt;
                                                     }},
                NumberMistake{"reads hexadecimal numbers",
                              [](
                                  const std::string& text) -> std::
                                                               optional<std::uint64_t> {
                                                                 const bool is_hex =
                                                                     text.size() > 2 &&
                                                                     (text.starts_with("0x") ||
                                                                      text.starts_with("0X")) &&
                                                                     text.find_first_not_of("0123456789abcdefABCDEF",
                                                                                            2) == text.npos;
                                                                 return is_hex ? std::optional<std::uint64_t>(
                                                                                     std::stoull(text, nullptr, 16))
                                                                               : std::nullopt;
                                                               }},
                NumberMistake{"reads a number in quotation marks",
                              [](const std::string& text) -> std::optional<std::uint64_t> {
                                if (text.size() < 3 || text.front() != '"') return std::nullopt;
                                return whole_number(text.substr(1, text.size() - 2));
                              }},
                NumberMistake{"ignores underscores in a number",
                              [](const std::string& text) -> std::optional<std::uint64_t> {
                                std::string digits = text;
                                std::erase(digits, '_');
                                return digits != text && is_digits(digits) ? whole_number(digits) : std::nullopt;
                              }},
                NumberMistake{
                    "takes true for 1",
                    [](const std::string& text)
                        -> std::optional<
                            std::uint64_t> { return text == "true" ? std::optional<std::uint64_t>(1) : std::nullopt; }},
                NumberMistake{
                    "takes null for 0",
                    [](const std::string& text)
                        -> std::optional<
                            std::uint64_t> { return text == "null" ? std::optional<std::uint64_t>(0) : std::nullopt; }},
                NumberMistake{
                    "takes NaN for 0",
                    [](const std::string& text)
                        -> std::optional<
                            std::uint64_t> { return text == "NaN" ? std::optional<std::uint64_t>(0) : std::nullopt; }},
                NumberMistake{"keeps a number of 2^64 or more in 64 bits",
                              [](const std::string& text) -> std::optional<std::uint64_t> {
                                return is_digits(text) && !whole_number(text) ? std::optional(wrapped(text))
                                                                              : std::nullopt;
                              }},
                NumberMistake{"takes a number of 2^64 or more for 2^64 - 1",
                              [](const std::string& text) -> std::optional<std::uint64_t> {
                                return is_digits(text) && !whole_number(text) ? std::optional(UINT64_MAX)
                                                                              : std::nullopt;
                              }},
                NumberMistake{"keeps a number in 32 bits",
                              [](const std::string& text) -> std::
                                                              optional<std::uint64_t> {
                                                                const auto number = whole_number(text);
                                                                return number ? std::optional(*number & 0xffffffff)
                                                                              : std::nullopt;
                                                              }},
                NumberMistake{"keeps a number in 31 bits",
                              [](const std::string& text) -> std::
                                                              optional<std::uint64_t> {
                                                                const auto number = whole_number(text);
                                                                return number ? std::optional(*number & 0x7fffffff)
                                                                              : std::nullopt;
                                                              }},
                NumberMistake{"keeps a number in 16 bits",
                              [](const std::string& text) -> std::
                                                              optional<std::uint64_t> {
                                                                const auto number = whole_number(text);
                                                                return number ? std::optional(*number & 0xffff)
                                                                              : std::nullopt;
                                                              }},
                NumberMistake{"keeps a number in 63 bits",
                              [](const std::string& text) -> std::
                                                              optional<std::uint64_t> {
                                                                const auto number = whole_number(text);
                                                                return number ? std::optional(*number << 1 >> 1)
                                                                              : std::nullopt;
                                                              }},
                NumberMistake{"keeps a number in a float of 64 bits",
                              [](const std::string& text) -> std::optional<std::uint64_t> {
                                const auto number = whole_number(text);
                                if (!number || *number > (std::uint64_t{1} << 63)) return std::nullopt;
                                return static_cast<std::uint64_t>(static_cast<double>(*number));
                              }},
                NumberMistake{"keeps a number in a float of 32 bits",
                              [](const std::string& text) -> std::optional<std::uint64_t> {
                                const auto number = whole_number(text);
                                if (!number || *number > (std::uint64_t{1} << 63)) return std::nullopt;
                                return static_cast<std::uint64_t>(static_cast<float>(*number));
                              }},
};

void add_numbers(SafetensorsBugs& bugs) {
  struct Where {
    std::string_view words;
    Place place;
    std::optional<std::size_t> position;
  };
  constexpr std::array kWhere = {Where{"a dimension", Place::kShape, std::nullopt},
                                 Where{"the begin of data", Place::kOffsets, 0},
                                 Where{"the end of data", Place::kOffsets, 1}};
  for (const NumberMistake& mistake : kNumberMistakes) {
    for (const Where& where : kWhere) {
      // No file is that large.
      if (where.position && mistake.name.find("for 2^64 - 1") != mistake.name.npos) continue;
      plant(bugs, "ST-006", fmt::format("{}: {}", mistake.name, where.words),
            [read = mistake.read, where](SafetensorsDraft& draft) {
              for_each_scalar(draft, where.place, [&](JsonValue& value, std::size_t position) {
                if (where.position && position != *where.position) return;
                if (const auto number = read(value.scalar)) value.scalar = std::to_string(*number);
              });
              return true;
            });
    }
  }
}

template <typename Visit>
void visit_tensors(SafetensorsDraft& draft, const Visit& visit) {
  for (const std::size_t place : tensor_places(draft)) visit(draft.root.items[place]);
}

void add_lists(SafetensorsBugs& bugs) {
  const auto of_offsets = [&bugs](const std::string& name, auto&& change) {
    plant(bugs, "ST-006", name, [change](SafetensorsDraft& draft) {
      visit_tensors(draft, [&](JsonItem& tensor) {
        if (JsonValue* const value = find(tensor.value, "data_offsets")) change(*value);
      });
      return true;
    });
  };
  of_offsets("ignores what follows two data_offsets", [](JsonValue& value) {
    if (value.kind != Kind::kArray || value.items.size() < 3) return;
    value.items.erase(value.items.begin() + 2, value.items.end());
    mutation::separate(value.items);
  });
  of_offsets("takes one data_offset for a beginning at 0", [](JsonValue& value) {
    if (value.kind != Kind::kArray || value.items.size() != 1) return;
    value.items.insert(value.items.begin(), mutation::element("0"));
    mutation::separate(value.items);
  });
  of_offsets("reads data_offsets from an object in its order", [](JsonValue& value) {
    if (value.kind != Kind::kObject) return;
    value.kind = Kind::kArray;
    for (JsonItem& item : value.items) item.has_colon = false, item.key.clear();
  });
  const auto of_shape = [&bugs](const std::string& name, auto&& change) {
    plant(bugs, "ST-006", name, [change](SafetensorsDraft& draft) {
      visit_tensors(draft, [&](JsonItem& tensor) {
        if (JsonValue* const value = find(tensor.value, "shape")) change(*value);
      });
      return true;
    });
  };
  of_shape("takes a number for a shape of one dimension", [](JsonValue& value) {
    if (value.kind == Kind::kScalar && is_digits(value.scalar)) value = mutation::split_json("[" + value.scalar + "]");
  });
  of_shape("takes a shape of null for that of a scalar", [](JsonValue& value) {
    if (value.scalar == "null") value = mutation::split_json("[]");
  });
  for (const char* const name : {"shape", "data_offsets"}) {
    plant(bugs, "ST-006", fmt::format("reads a list in a list in {} as its numbers", name),
          [name](SafetensorsDraft& draft) {
            visit_tensors(draft, [&](JsonItem& tensor) {
              JsonValue* const value = find(tensor.value, name);
              if (value == nullptr) return;
              for (JsonItem& item : value->items) {
                if (item.value.kind == Kind::kArray && item.value.items.size() == 1) {
                  item.value = JsonValue(item.value.items.front().value);
                }
              }
            });
            return true;
          });
  }
  plant(bugs, "ST-006", "takes a missing shape for that of a scalar", [](SafetensorsDraft& draft) {
    visit_tensors(draft, [](JsonItem& tensor) {
      if (find(tensor.value, "shape") != nullptr) return;
      tensor.value.items.push_back(mutation::member("shape", "[]"));
      mutation::separate(tensor.value.items);
    });
    return true;
  });
  plant(bugs, "ST-006", "takes missing data_offsets for no data", [](SafetensorsDraft& draft) {
    std::erase_if(draft.root.items, [](const JsonItem& item) {
      return item.value.kind == Kind::kObject && item.key != "\"__metadata__\"" &&
             find(item.value, "data_offsets") == nullptr && find(item.value, "dtype") != nullptr;
    });
    if (!draft.root.items.empty()) mutation::separate(draft.root.items);
    return true;
  });
  plant(bugs, "ST-006", "takes a missing dtype for U8", [](SafetensorsDraft& draft) {
    visit_tensors(draft, [](JsonItem& tensor) {
      if (find(tensor.value, "dtype") != nullptr) return;
      tensor.value.items.push_back(mutation::member("dtype", "\"U8\""));
      mutation::separate(tensor.value.items);
    });
    return true;
  });
  plant(bugs, "ST-006", "ignores a tensor that is no object", [](SafetensorsDraft& draft) {
    std::erase_if(draft.root.items, [](const JsonItem& item) {
      const bool is_value = item.value.kind == Kind::kArray || !item.value.scalar.empty();
      return item.has_colon && item.key != "\"__metadata__\"" && item.value.kind != Kind::kObject && is_value;
    });
    if (!draft.root.items.empty()) mutation::separate(draft.root.items);
    return true;
  });
  plant(bugs, "ST-006", "ignores an empty tensor", [](SafetensorsDraft& draft) {
    std::erase_if(draft.root.items, [](const JsonItem& item) {
      return item.key != "\"__metadata__\"" && item.value.kind == Kind::kObject && item.value.items.empty();
    });
    if (!draft.root.items.empty()) mutation::separate(draft.root.items);
    return true;
  });
  plant(bugs, "ST-006", "refuses an unknown member of a tensor", [](SafetensorsDraft& draft) {
    bool all = true;
    visit_tensors(draft, [&](const JsonItem& tensor) {
      for (const JsonItem& item : tensor.value.items) {
        all = all && (item.key == "\"dtype\"" || item.key == "\"shape\"" || item.key == "\"data_offsets\"" ||
                      item.key.find('\\') != item.key.npos);
      }
    });
    return all;
  });
  plant(bugs, "ST-006", "refuses members of a tensor in another order", [](SafetensorsDraft& draft) {
    bool all = true;
    visit_tensors(draft, [&](const JsonItem& tensor) {
      all = all && !tensor.value.items.empty() && tensor.value.items.front().key == "\"dtype\"";
    });
    return all;
  });
}

void set_dtype(JsonItem& tensor, std::string_view name) {
  if (JsonValue* const value = find(tensor.value, "dtype")) *value = mutation::scalar('"' + std::string(name) + '"');
}

void add_dtypes(SafetensorsBugs& bugs) {
  for (const safetensors::Dtype& dtype : safetensors::dtypes()) {
    plant(bugs, "ST-010", fmt::format("refuses {}", dtype.name), [name = dtype.name](SafetensorsDraft& draft) {
      bool all = true;
      visit_tensors(draft, [&](const JsonItem& tensor) { all = all && dtype_name(tensor) != name; });
      return all;
    });
    const std::string_view other = dtype.bits == 8    ? (dtype.name == "U8" ? "I8" : "U8")
                                   : dtype.bits == 16 ? (dtype.name == "F16" ? "BF16" : "F16")
                                   : dtype.bits == 32 ? (dtype.name == "F32" ? "I32" : "F32")
                                   : dtype.bits == 64 ? (dtype.name == "F64" ? "I64" : "F64")
                                   : dtype.bits == 6  ? (dtype.name == "F6_E2M3" ? "F6_E3M2" : "F6_E2M3")
                                                      : "";
    if (other.empty()) continue;
    plant(bugs, "ST-010", fmt::format("takes {} for {}", dtype.name, other),
          [name = dtype.name, other](SafetensorsDraft& draft) {
            visit_tensors(draft, [&](JsonItem& tensor) {
              if (dtype_name(tensor) == name) set_dtype(tensor, other);
            });
            return true;
          });
  }
  const auto reads = [&bugs](const std::string& rule, const std::string& name, auto&& read) {
    plant(bugs, rule, name, [read](SafetensorsDraft& draft) {
      visit_tensors(draft, [&](JsonItem& tensor) {
        const std::string named = dtype_name(tensor);
        const JsonValue* const value = find(tensor.value, "dtype");
        if (value == nullptr || safetensors::dtype_of(named) != nullptr) return;
        const std::string other = read(named, *value);
        if (safetensors::dtype_of(other) != nullptr) set_dtype(tensor, other);
      });
      return true;
    });
  };
  reads("ST-010", "takes a dtype in lower case", [](std::string name, const JsonValue&) {
    std::ranges::transform(name, name.begin(), [](char c) { return c >= 'a' && c <= 'z' ? char(c - 32) : c; });
    return name;
  });
  reads("ST-010", "strips white space around a dtype", [](std::string name, const JsonValue&) {
    name.erase(0, std::min(name.find_first_not_of(' '), name.size()));
    name.erase(name.find_last_not_of(' ') + 1);
    return name;
  });
  reads("ST-010", "takes torch's name for a dtype", [](const std::string& name, const JsonValue&) {
    for (const safetensors::Dtype& dtype : safetensors::dtypes()) {
      if (!dtype.torch.empty() && (name == dtype.torch || name == "torch." + std::string(dtype.torch))) {
        return std::string(dtype.name);
      }
    }
    return std::string();
  });
  reads("ST-010", "takes an unknown dtype for U8",
        [](const std::string&, const JsonValue& value) { return value.scalar.starts_with('"') ? "U8" : ""; });
  reads("ST-010", "takes an empty dtype for U8",
        [](const std::string&, const JsonValue& value) { return value.scalar == "\"\"" ? "U8" : ""; });
  reads("ST-010", "reads the begin of a dtype", [](const std::string& name, const JsonValue&) {
    for (std::size_t size = name.size(); size > 1; --size) {
      if (safetensors::dtype_of(name.substr(0, size)) != nullptr) return name.substr(0, size);
    }
    return std::string();
  });
  reads("ST-006", "takes a number for a dtype",
        [](const std::string&, const JsonValue& value) { return is_digits(value.scalar) ? "U8" : ""; });
  reads("ST-006", "takes a dtype of null for U8",
        [](const std::string&, const JsonValue& value) { return value.scalar == "null" ? "U8" : ""; });
  reads("ST-006", "takes any object for a dtype",
        [](const std::string&, const JsonValue& value) { return value.kind == Kind::kObject ? "U8" : ""; });
  reads("ST-006", "takes the first key of an object for a dtype", [](const std::string&, const JsonValue& value) {
    if (value.kind != Kind::kObject || value.items.size() < 2 || value.items.front().key.size() < 3)
      return std::string();
    return value.items.front().key.substr(1, value.items.front().key.size() - 2);
  });
  plant(bugs, "ST-010", "ignores tensors of an unknown dtype with their data", [](SafetensorsDraft& draft) {
    const std::vector<std::size_t> places = tensor_places(draft);
    for (std::size_t i = places.size(); i > 0; --i) {
      const JsonItem& tensor = draft.root.items[places[i - 1]];
      const JsonValue* const value = find(tensor.value, "dtype");
      const bool is_text = value != nullptr && value->scalar.starts_with('"');
      if (is_text && safetensors::dtype_of(dtype_name(tensor)) == nullptr) erase_tensors(draft, {places[i - 1]});
    }
    return true;
  });
}

// A tensor as a reader checks its size.
struct Sized {
  std::uint64_t bits = 0;  // of an element
  std::string_view dtype;
  Numbers shape;
  std::uint64_t data_bytes = 0;  // by its data_offsets
  std::size_t position = 0;      // in the header, and the number of tensors
  std::size_t tensors = 0;
};

std::optional<std::uint64_t> product_of(const Numbers& numbers, std::uint64_t factor = 1) {
  std::uint64_t product = 1;
  for (const std::uint64_t number : numbers) {
    if (number != 0 && product > UINT64_MAX / number) return std::nullopt;
    product *= number;
  }
  if (factor != 0 && product > UINT64_MAX / factor) return std::nullopt;
  return product * factor;
}

// What the size of the data must be.
std::optional<std::uint64_t> right_size(const Sized& tensor) {
  const auto bits = product_of(tensor.shape, tensor.bits);
  return bits && *bits % 8 == 0 ? std::optional(*bits / 8) : std::nullopt;
}

bool is_right(const Sized& tensor) { return right_size(tensor) == tensor.data_bytes; }

// Another test of the size. What only the mistake takes becomes a tensor of as many bytes.
void add_size(SafetensorsBugs& bugs, std::string rule, std::string name, std::function<bool(const Sized&)> is_taken) {
  plant(bugs, std::move(rule), std::move(name), [is_taken = std::move(is_taken)](SafetensorsDraft& draft) {
    const std::vector<std::size_t> places = tensor_places(draft);
    for (std::size_t i = 0; i < places.size(); ++i) {
      JsonItem& tensor = draft.root.items[places[i]];
      const safetensors::Dtype* const dtype = safetensors::dtype_of(dtype_name(tensor));
      const auto shape = numbers_in(find(tensor.value, "shape"));
      const auto range = data_range(tensor);
      if (dtype == nullptr || !shape || !range || range->end < range->begin) continue;
      const Sized sized{dtype->bits, dtype->name, *shape, range->end - range->begin, i, places.size()};
      if (is_taken(sized)) {
        if (is_right(sized)) continue;
        set_dtype(tensor, "U8");
        *find(tensor.value, "shape") = mutation::array_of({sized.data_bytes});
      } else if (is_right(sized)) {
        return false;
      }
    }
    return true;
  });
}

std::uint64_t product_in(const Numbers& numbers, std::uint64_t mask) {
  std::uint64_t product = 1;
  for (const std::uint64_t number : numbers) product = (product * number) & mask;
  return product;
}

bool has_zero(const Numbers& numbers) { return std::ranges::find(numbers, 0U) != numbers.end(); }

void add_products(SafetensorsBugs& bugs) {
  add_size(bugs, "ST-011", "multiplies dimensions in 64 bits without a check", [](const Sized& t) {
    const std::uint64_t count = product_in(t.shape, UINT64_MAX);
    const auto bits = product_of({count}, t.bits);
    return bits && *bits % 8 == 0 && *bits / 8 == t.data_bytes;
  });
  add_size(bugs, "ST-011", "multiplies dimensions and bits in 64 bits without a check", [](const Sized& t) {
    const std::uint64_t bits = product_in(t.shape, UINT64_MAX) * t.bits;
    return bits % 8 == 0 && bits / 8 == t.data_bytes;
  });
  add_size(bugs, "ST-011", "multiplies dimensions and bytes in 64 bits without a check", [](const Sized& t) {
    if (t.bits < 8) return is_right(t);
    return product_in(t.shape, UINT64_MAX) * (t.bits / 8) == t.data_bytes;
  });
  add_size(bugs, "ST-011", "multiplies dimensions in 32 bits", [](const Sized& t) {
    const std::uint64_t bits = product_in(t.shape, 0xffffffff) * t.bits;
    return bits % 8 == 0 && bits / 8 == t.data_bytes;
  });
  add_size(bugs, "ST-011", "compares sizes in 32 bits", [](const Sized& t) {
    const auto right = right_size(t);
    return right && (*right & 0xffffffff) == (t.data_bytes & 0xffffffff);
  });
  add_size(bugs, "ST-011", "lets a dimension of 0 undo an overflow",
           [](const Sized& t) { return is_right(t) || (has_zero(t.shape) && t.data_bytes == 0); });
  add_size(bugs, "ST-011", "lets a dimension of 0 undo an overflow, if it is the last", [](const Sized& t) {
    return is_right(t) || (!t.shape.empty() && t.shape.back() == 0 && t.data_bytes == 0);
  });
  add_size(bugs, "ST-011", "refuses an overflow that a dimension of 0 precedes", [](const Sized& t) {
    Numbers others = t.shape;
    std::erase(others, 0U);
    return is_right(t) && product_of(others, t.bits).has_value();
  });
  for (const unsigned bits : {16U, 31U, 32U, 53U, 63U}) {
    add_size(bugs, "ST-011", fmt::format("refuses a dimension of 2^{} or more", bits), [bits](const Sized& t) {
      return is_right(t) && std::ranges::all_of(t.shape, [&](std::uint64_t dim) { return dim >> bits == 0; });
    });
  }
  for (const std::size_t count : {0, 1, 2, 3, 4, 5, 8, 32, 64}) {
    add_size(bugs, "ST-013", fmt::format("refuses more than {} dimensions", count),
             [count](const Sized& t) { return is_right(t) && t.shape.size() <= count; });
  }
}

void add_sizes(SafetensorsBugs& bugs) {
  add_size(bugs, "ST-012", "rounds bits down to bytes", [](const Sized& t) {
    const auto bits = product_of(t.shape, t.bits);
    return bits && *bits / 8 == t.data_bytes;
  });
  add_size(bugs, "ST-012", "rounds bits up to bytes", [](const Sized& t) {
    const auto bits = product_of(t.shape, t.bits);
    return bits && (*bits / 8) + (*bits % 8 != 0 ? 1 : 0) == t.data_bytes;
  });
  add_size(bugs, "ST-012", "gives each element of fewer than 8 bits a byte",
           [](const Sized& t) { return t.bits < 8 ? product_of(t.shape) == t.data_bytes : is_right(t); });
  add_size(bugs, "ST-012", "gives elements of 6 bits the size of those of 4", [](const Sized& t) {
    Sized other = t;
    other.bits = t.bits == 6 ? 4 : t.bits;
    return is_right(other);
  });
  add_size(bugs, "ST-012", "gives elements of 4 bits the size of those of 6", [](const Sized& t) {
    Sized other = t;
    other.bits = t.bits == 4 ? 6 : t.bits;
    return is_right(other);
  });
  struct Lenient {
    std::string_view name;
    bool (*is_exempt)(const Sized&);
  };
  constexpr std::array kLenient = {
      Lenient{"does not compare the size of data with shape and dtype", [](const Sized&) { return true; }},
      Lenient{"takes data that is larger than shape and dtype say",
              [](const Sized& t) { return right_size(t) && t.data_bytes > *right_size(t); }},
      Lenient{"takes data that is smaller than shape and dtype say",
              [](const Sized& t) { return right_size(t) && t.data_bytes < *right_size(t); }},
      Lenient{"takes data that is a multiple of what shape and dtype say",
              [](const Sized& t) {
                const auto right = right_size(t);
                return right && *right != 0 && t.data_bytes % *right == 0;
              }},
      Lenient{"does not compare the size of a tensor without elements",
              [](const Sized& t) { return has_zero(t.shape); }},
      Lenient{"does not compare the size of a tensor without data", [](const Sized& t) { return t.data_bytes == 0; }},
      Lenient{"does not compare the size of a scalar", [](const Sized& t) { return t.shape.empty(); }},
      Lenient{"does not compare the size of a tensor of one dimension",
              [](const Sized& t) { return t.shape.size() == 1; }},
      Lenient{"does not compare the size of a tensor of two dimensions",
              [](const Sized& t) { return t.shape.size() == 2; }},
      Lenient{"does not compare the size of the first tensor", [](const Sized& t) { return t.position == 0; }},
      Lenient{"does not compare the size of the last tensor",
              [](const Sized& t) { return t.position + 1 == t.tensors; }},
      Lenient{"does not compare the size of tensors after the first", [](const Sized& t) { return t.position > 0; }},
      Lenient{"does not compare the size of the only tensor", [](const Sized& t) { return t.tensors == 1; }},
      Lenient{"compares sizes in elements of at least a byte only", [](const Sized& t) { return t.bits < 8; }},
      Lenient{"compares no size of 8 bytes and more", [](const Sized& t) { return t.data_bytes >= 8; }},
      Lenient{"takes a size that is one byte less",
              [](const Sized& t) { return right_size(t) && t.data_bytes + 1 == *right_size(t); }},
      Lenient{"takes a size that is one byte more",
              [](const Sized& t) { return right_size(t) && t.data_bytes == *right_size(t) + 1; }},
      Lenient{"takes any size that is a whole number of elements",
              [](const Sized& t) { return t.bits >= 8 && t.data_bytes % (t.bits / 8) == 0; }},
  };
  for (const Lenient& lenient : kLenient) {
    add_size(bugs, "ST-013", std::string(lenient.name), [is_exempt = lenient.is_exempt](const Sized& t) {
      return is_right(t) || (is_exempt(t) && product_of(t.shape, t.bits).has_value());
    });
  }
  for (const safetensors::Dtype& dtype : safetensors::dtypes()) {
    add_size(bugs, "ST-013", fmt::format("does not compare the size of {}", dtype.name),
             [name = dtype.name](const Sized& t) { return is_right(t) || t.dtype == name; });
    add_size(bugs, "ST-013", fmt::format("gives {} elements of twice the size", dtype.name),
             [name = dtype.name](const Sized& t) {
               Sized other = t;
               if (t.dtype == name) other.bits *= 2;
               return is_right(other);
             });
  }
  const auto refuses = [&bugs](const std::string& name, auto&& test) {
    add_size(bugs, "ST-013", name, [test](const Sized& t) { return is_right(t) && !test(t); });
  };
  refuses("refuses a scalar", [](const Sized& t) { return t.shape.empty(); });
  refuses("refuses a tensor without elements", [](const Sized& t) { return has_zero(t.shape); });
  refuses("refuses a dimension of 1", [](const Sized& t) { return std::ranges::find(t.shape, 1U) != t.shape.end(); });
  add_size(bugs, "ST-013", "gives a scalar no element",
           [](const Sized& t) { return t.shape.empty() ? t.data_bytes == 0 : is_right(t); });
  add_size(bugs, "ST-013", "gives a tensor without elements one",
           [](const Sized& t) { return has_zero(t.shape) ? t.data_bytes == t.bits / 8 : is_right(t); });
}

void add_shapes(SafetensorsBugs& bugs) {
  const auto reshapes = [&bugs](const std::string& name, auto&& change) {
    plant(bugs, "ST-013", name, [change](SafetensorsDraft& draft) {
      visit_tensors(draft, [&](JsonItem& tensor) {
        JsonValue* const value = find(tensor.value, "shape");
        auto shape = numbers_in(value);
        if (!shape) return;
        change(*shape);
        *value = mutation::array_of(*shape);
      });
      return true;
    });
  };
  reshapes("gives the dimensions in the opposite order", [](Numbers& shape) { std::ranges::reverse(shape); });
  reshapes("leaves out dimensions of 1", [](Numbers& shape) { std::erase(shape, 1U); });
  reshapes("gives a scalar a dimension of 1", [](Numbers& shape) {
    if (shape.empty()) shape = {1};
  });
  reshapes("joins all dimensions", [](Numbers& shape) {
    const auto count = product_of(shape);
    if (shape.size() > 1 && count) shape = {*count};
  });
}

}  // namespace

SafetensorsBugs bugs_of_tensors() {
  SafetensorsBugs bugs;
  add_numbers(bugs);
  add_lists(bugs);
  add_dtypes(bugs);
  add_products(bugs);
  add_sizes(bugs);
  add_shapes(bugs);
  return bugs;
}

}  // namespace tzmark::conformance::planted
