// Ways in which a reader checks too little; see weak_checks.h.
#include "planted_bugs/weak_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <regex>
#include <set>

namespace tzmark::conformance::planted {
namespace {

constexpr std::size_t kEndBytes = 500;
constexpr std::size_t kWordBytes = 8;
constexpr std::size_t kFirstBytesMin = 8;
constexpr std::size_t kFirstBytesMax = 256;
// FORMAT.md 8.
constexpr std::uint64_t kCountMax = 0x7fffffff;
constexpr std::uint64_t kLowHalf = 0xffffffff;
// FORMAT.md 11.3.
constexpr std::uint64_t kMemlimitMax = std::uint64_t{1} << 30;
constexpr std::uint64_t kOpslimitMax = 4;

// What the defect's text, such as a name, looks like when it is missed.
Weak looks(std::string name, const std::string& field, const std::string& pattern) {
  return {std::move(name), [field, pattern](const Event& event) {
            std::string text = event.in_index(field);
            // The library's expressions recurse for each character.
            if (text.size() > 2 * kEndBytes) text.erase(kEndBytes, text.size() - 2 * kEndBytes);
            return std::regex_search(text, std::regex(pattern));
          }};
}
// The defect's numbers and the size of the file.
Weak numbers_that(std::string name, bool (*missed)(const Numbers& numbers, std::uint64_t size)) {
  return {std::move(name),
          [missed](const Event& event) { return missed(event.numbers(), event.subject.bytes.size()); }};
}

Weak dims_that(std::string name, bool (*same)(const Dims& index, const Dims& header)) {
  return {std::move(name), [same](const Event& event) {
            return same(dims_of(event, event.in_index("dim")), dims_of(event, event.in_header("dim")));
          }};
}

std::uint64_t product(const Dims& dims) {
  std::uint64_t all = 1;
  for (const std::uint64_t dim : dims) all *= dim;
  return all;
}

bool same_under(const Dims& a, const Dims& b, std::uint64_t mask) {
  return std::ranges::equal(a, b, [&](std::uint64_t x, std::uint64_t y) { return (x & mask) == (y & mask); });
}

bool same_first(const Dims& a, const Dims& b, std::size_t count) {
  return a.size() == b.size() && a.size() > count && std::equal(a.begin(), a.begin() + count, b.begin());
}

// Texts of one length. A defect may be that of another layout, in which other bytes are the text.
bool differ_alike(const std::string& a, const std::string& b) { return a.size() == b.size() && a != b; }

std::string whole_words(const std::string& text) { return text.substr(0, text.size() / kWordBytes * kWordBytes); }

bool is_lenient_utf8(const std::string& text, const Lenience& lets) {
  for (std::size_t at = 0; at < text.size();) {
    const auto first = static_cast<unsigned char>(text[at]);
    const std::size_t size = first < 0x80   ? 1
                             : first < 0xc0 ? (lets.stray ? 1 : 0)
                             : first < 0xe0 ? 2
                             : first < 0xf0 ? 3
                             : first < 0xf8 ? 4
                             : first < 0xfc ? (lets.long_forms ? 5 : 0)
                             : first < 0xfe ? (lets.long_forms ? 6 : 0)
                                            : 0;
    if (size == 0) return false;
    std::uint32_t code = size == 1 ? first : first & (0x7fu >> size);
    for (std::size_t i = 1; i < size; ++i) {
      if (at + i == text.size()) return lets.cut_at_end;
      const auto next = static_cast<unsigned char>(text[at + i]);
      if ((next & 0xc0) != 0x80) return false;
      code = code << 6 | (next & 0x3f);
    }
    constexpr std::array<std::uint32_t, 7> least = {0, 0, 0x80, 0x800, 0x10000, 0x200000, 0x4000000};
    if (!lets.overlong && code < least[size]) return false;
    if (!lets.surrogates && code >= 0xd800 && code <= 0xdfff) return false;
    if (!lets.large && !lets.long_forms && code > 0x10ffff) return false;
    at += size;
  }
  return true;
}

bool is_structured_name(const std::string& name) { return name.starts_with('\x1e'); }

// Whether another hash of the same tensor has the same type and comes before or after.
bool has_twin(const Event& event, bool before) {
  if (!event.tensor() || !event.defect.offset) return false;
  const auto types = event.subject.all(fmt::format("tensor header {}", *event.tensor()), "hash type");
  // The value lies behind type and size.
  const std::uint64_t own_at = *event.defect.offset - 2;
  return std::ranges::any_of(types, [&](const model::Field* type) {
    const bool there = before ? type->offset < own_at : type->offset > own_at;
    return there && event.subject.bytes[type->offset] == event.subject.bytes[own_at];
  });
}

// The last byte that a length leads to, and the one that it may lead to at most; `mask` is what is seen of the length.
std::pair<std::uint64_t, std::uint64_t> end_of(const Event& event, std::uint64_t mask) {
  const Numbers n = event.numbers();
  // The length of the index does not count itself.
  const std::uint64_t begin = event.defect.offset.value_or(0) + (event.defect.structure.name == "index" ? 8 : 0);
  return {begin + (n[0] & mask), n[1]};
}

// The product of the dimensions and whether it is above 2^64.
std::pair<std::uint64_t, bool> product_of(const Event& event) {
  std::uint64_t all = 1;
  bool wraps = false;
  for (const std::uint64_t dim : dims_of(event, event.in_index("dim"))) {
    wraps = wraps || (dim != 0 && all > UINT64_MAX / dim);
    all *= dim;
  }
  return {all, wraps};
}

// How many messages the data has in chunks of the size that the file gives.
std::uint64_t messages_of(const Event& event) {
  const auto sizes = event.subject.all(fmt::format("tensor header {}", event.tensor().value_or(0)), "chunk_size");
  const std::uint64_t data = little_endian(event.in_index("data_length"));
  const std::uint64_t size = sizes.empty() ? 0 : std::stoull(sizes[0]->value);
  return size == 0 ? 0 : (data - 1) / size + 1;
}

// The bytes that should not be there; their number is the defect's first.
bool are_zeros(const Event& event) {
  return event.bytes_there().substr(0, event.numbers()[0]).find_first_not_of('\0') == std::string::npos;
}

}  // namespace

std::string other_name(const Event& event) {
  const auto other = event.other();
  return other ? event.subject.text(fmt::format("index entry {}", *other), "name") : "";
}

Weak name_with(std::string name, const std::string& pattern) { return looks(std::move(name), "name", pattern); }
Weak dtype_with(std::string name, const std::string& pattern) { return looks(std::move(name), "dtype", pattern); }

Weak text_that(std::string name, bool (*missed)(std::string_view text)) {
  return {std::move(name), [missed](const Event& event) { return missed(event.text()); }};
}

Weak number_in(std::string name, const Numbers& missed) {
  return {std::move(name),
          [missed](const Event& event) { return std::ranges::find(missed, event.numbers()[0]) != missed.end(); }};
}

Weak contains(std::string name, const std::string& field, const std::string& bytes) {
  return {std::move(name),
          [field, bytes](const Event& event) { return event.in_index(field).find(bytes) != std::string::npos; }};
}

Dims dims_of(const Event& event, const std::string& bytes) {
  const std::size_t width = event.in_index("entry_version").starts_with('\x05') ? 8 : 4;
  Dims dims;
  for (std::size_t at = 0; at + width <= bytes.size(); at += width) {
    dims.push_back(little_endian(bytes.substr(at, width)));
  }
  return dims;
}

Weak bits_that(std::string name, bool (*missed)(const Numbers& bits)) {
  return {std::move(name), [missed](const Event& event) {
            Numbers bits = numbers_of(event.defect.got);
            std::erase(bits, 0);  // bit 0 is not reserved
            return missed(bits);
          }};
}

Weaks utf8_in_parts() {
  Weaks all;
  for (std::size_t bytes = kFirstBytesMin; bytes <= kFirstBytesMax; bytes *= 2) {
    all.emplace_back(fmt::format("the first {} bytes alone are checked", bytes), [bytes](const Event& event) {
      const std::string name = event.in_index("name");
      return name.size() > bytes && is_lenient_utf8(name.substr(0, bytes), {.cut_at_end = true});
    });
  }
  all.emplace_back("words alone are checked, and no bytes after the last", [](const Event& event) {
    const std::string name = event.in_index("name");
    return name.size() > kWordBytes && is_lenient_utf8(whole_words(name), {.cut_at_end = true});
  });
  return all;
}

Weak dtype_wraps(std::string name, const std::string& pattern, std::uint64_t unit, int bits) {
  return {std::move(name), [=](const Event& event) {
            const std::string dtype = event.in_index("dtype");
            std::smatch match;
            if (!std::regex_search(dtype, match, std::regex(pattern))) return false;
            std::uint64_t number = 0;
            bool wraps = false;
            const auto take = [&](std::uint64_t factor, std::uint64_t more) {
              wraps = wraps || number > (UINT64_MAX - more) / factor;
              number = number * factor + more;
            };
            for (const char digit : match[1].str()) take(10, static_cast<std::uint64_t>(digit - '0'));
            take(unit, 0);
            // A reader that narrows a number to 32 bits has checked that 64 hold it.
            const std::uint64_t taken = bits == 64 ? number : number & kLowHalf;
            const bool is_changed = bits == 64 ? wraps : !wraps && taken != number;
            return is_changed && taken > 0 && taken <= kCountMax;
          }};
}

// Compares a field of index and header in a part of its bytes.
Weaks as_bytes(const std::string& field, std::size_t most) {
  const auto weak = [&](std::string name, bool (*same)(const std::string&, const std::string&)) {
    return Weak{std::move(name),
                [field, same](const Event& event) { return same(event.in_index(field), event.in_header(field)); }};
  };
  Weaks all = {
      weak("the lengths alone are compared",
           [](const std::string& a, const std::string& b) { return a.size() == b.size(); }),
      weak("the first byte alone is compared",
           [](const std::string& a, const std::string& b) { return a.substr(0, 1) == b.substr(0, 1); }),
      weak("the last byte alone is compared",
           [](const std::string& a, const std::string& b) { return !a.empty() && !b.empty() && a.back() == b.back(); }),
      weak("the header's may be longer", [](const std::string& a, const std::string& b) { return b.starts_with(a); }),
      weak("the header's may be shorter", [](const std::string& a, const std::string& b) { return a.starts_with(b); }),
      weak("the bytes before a NUL alone are compared",
           [](const std::string& a, const std::string& b) {
             return differ_alike(a, b) && a.substr(0, a.find('\0')) == b.substr(0, b.find('\0'));
           }),
      weak("words alone are compared, and no bytes after the last", [](const std::string& a, const std::string& b) {
        return differ_alike(a, b) && a.size() > kWordBytes && whole_words(a) == whole_words(b);
      })};
  for (std::size_t bytes = kFirstBytesMin; bytes <= most; bytes *= 2) {
    all.emplace_back(fmt::format("the first {} bytes alone are compared", bytes), [field, bytes](const Event& event) {
      const std::string a = event.in_index(field), b = event.in_header(field);
      return differ_alike(a, b) && a.substr(0, bytes) == b.substr(0, bytes);
    });
  }
  return all;
}

const Weaks kWeakShapes = {
    dims_that("the number of dimensions alone is compared",
              [](const Dims& a, const Dims& b) { return a.size() == b.size(); }),
    dims_that("the number of elements alone is compared",
              [](const Dims& a, const Dims& b) { return product(a) == product(b); }),
    dims_that("the first dimension alone is compared",
              [](const Dims& a, const Dims& b) { return !a.empty() && !b.empty() && a.front() == b.front(); }),
    dims_that("the last dimension alone is compared",
              [](const Dims& a, const Dims& b) { return !a.empty() && !b.empty() && a.back() == b.back(); }),
    dims_that("the first four dimensions alone are compared",
              [](const Dims& a, const Dims& b) { return same_first(a, b, 4); }),
    dims_that("the first eight dimensions alone are compared",
              [](const Dims& a, const Dims& b) { return same_first(a, b, 8); }),
    dims_that("dimensions in any order are taken",
              [](const Dims& a, const Dims& b) {
                return std::multiset<std::uint64_t>(a.begin(), a.end()) ==
                       std::multiset<std::uint64_t>(b.begin(), b.end());
              }),
    dims_that("the low byte of dimensions alone is compared",
              [](const Dims& a, const Dims& b) { return same_under(a, b, 0xff); }),
    dims_that("the high half of dimensions of four bytes is ignored",
              [](const Dims& a, const Dims& b) { return same_under(a, b, 0xffff); }),
    dims_that("the high half of dimensions of eight bytes is ignored",
              [](const Dims& a, const Dims& b) { return same_under(a, b, 0xffffffff); }),
    dims_that(
        "more dimensions in the header are taken",
        [](const Dims& a, const Dims& b) { return a.size() < b.size() && std::equal(a.begin(), a.end(), b.begin()); }),
    dims_that("fewer dimensions in the header are taken", [](const Dims& a, const Dims& b) {
      return a.size() > b.size() && std::equal(b.begin(), b.end(), a.begin());
    })};

Weak utf8_with(std::string name, Lenience lets) {
  return {std::move(name), [lets](const Event& event) { return is_lenient_utf8(event.in_index("name"), lets); }};
}

const Weaks kWeakTrees = {
    {"neighbours in the index alone are compared",
     [](const Event& event) {
       const auto tensor = event.tensor(), other = event.other();
       return tensor && other && std::max(*tensor, *other) - std::min(*tensor, *other) > 1;
     }},
    {"plain names alone are compared with each other",
     [](const Event& event) {
       return is_structured_name(event.in_index("name")) || is_structured_name(other_name(event));
     }},
    {"structured names alone are compared with each other",
     [](const Event& event) {
       return !is_structured_name(event.in_index("name")) || !is_structured_name(other_name(event));
     }},
    {"plain and structured names are compared apart",
     [](const Event& event) {
       return is_structured_name(event.in_index("name")) != is_structured_name(other_name(event));
     }},
};

const Weaks kWeakOrders = {
    {"a name is not compared with those behind it in the index",
     [](const Event& event) { return event.tensor() < event.other(); }},
    {"a name is not compared with those before it in the index",
     [](const Event& event) { return event.tensor() > event.other(); }},
};

bool version_is(const Event& event, int data_version) {
  return event.subject.bytes.size() > 5 && std::to_integer<int>(event.subject.bytes[5]) == data_version;
}

Weak path_known(std::string name) {
  return {std::move(name), [](const Event& event) {
            return event.history.knows("path " + event.subject.item.file.string(), event.subject.question);
          }};
}

bool has_chunk(const Event& event, std::uint64_t type) {
  if (!event.tensor()) return false;
  for (const model::Field* field : event.subject.all(fmt::format("tensor header {}", *event.tensor()), "chunk_type")) {
    if (std::to_integer<std::uint64_t>(event.subject.bytes[field->offset]) == type) return true;
  }
  return false;
}

const Weaks kWeakHashes = {
    {"of two of this type the first alone is checked", [](const Event& event) { return has_twin(event, true); }},
    {"of two of this type the last alone is checked", [](const Event& event) { return has_twin(event, false); }},
    {"not checked if the other type is there",
     [](const Event& event) {
       const std::string header = fmt::format("tensor header {}", event.tensor().value_or(0));
       std::set<std::string> types;
       for (const model::Field* field : event.subject.all(header, "hash type")) types.insert(field->value);
       return types.size() > 1;
     }},
    {"not checked if it is the only hash",
     [](const Event& event) { return event.item() && event.item()->second == 1; }},
};

// The numbers are data_offset and data_length.
const Weaks kWeakDataPlaces = {
    numbers_that("the sum of offset and length may wrap",
                 [](const Numbers& n, std::uint64_t size) { return n[1] + n[0] < n[1] && n[1] + n[0] <= size; }),
    numbers_that("the offset alone is checked", [](const Numbers& n, std::uint64_t size) { return n[0] <= size; }),
    numbers_that("the length alone is checked", [](const Numbers& n, std::uint64_t size) { return n[1] <= size; }),
    numbers_that("one byte too many is taken",
                 [](const Numbers& n, std::uint64_t size) { return n[1] + n[0] == size + 1; }),
    numbers_that("the high half of the offset is ignored",
                 [](const Numbers& n, std::uint64_t size) { return n[1] + (n[0] & kLowHalf) <= size; }),
    numbers_that("the high half of the length is ignored",
                 [](const Numbers& n, std::uint64_t size) { return (n[1] & kLowHalf) + n[0] <= size; }),
    numbers_that("the offset is compared as a signed number",
                 [](const Numbers& n, std::uint64_t) { return n[0] >> 63 != 0; }),
};

const Weaks kWeakHeaderPlaces = {
    numbers_that("a place inside the file is taken", [](const Numbers& n, std::uint64_t size) { return n[0] < size; }),
    numbers_that("a place beyond the file is taken", [](const Numbers& n, std::uint64_t size) { return n[0] >= size; }),
    numbers_that("the end of the file is taken", [](const Numbers& n, std::uint64_t size) { return n[0] == size; }),
    numbers_that("the high half is ignored",
                 [](const Numbers& n, std::uint64_t size) { return (n[0] & kLowHalf) < size; }),
    numbers_that("it is compared as a signed number", [](const Numbers& n, std::uint64_t) { return n[0] >> 63 != 0; }),
};

const Weaks kWeakLengths = {
    {"the sum of place and length may wrap",
     [](const Event& event) {
       const auto [end, most] = end_of(event, UINT64_MAX);
       return end < event.numbers()[0] && end <= most;
     }},
    {"the high half is ignored",
     [](const Event& event) {
       const auto [end, most] = end_of(event, kLowHalf);
       return end <= most;
     }},
    {"one byte too many is taken",
     [](const Event& event) {
       const auto [end, most] = end_of(event, UINT64_MAX);
       return end == most + 1;
     }},
    numbers_that("it is compared as a signed number", [](const Numbers& n, std::uint64_t) { return n[0] >> 63 != 0; }),
};

const Weaks kWeakNominal = {
    {"a product that wraps is taken", [](const Event& event) { return product_of(event).second; }},
    {"2^63 to 2^64 - 1 are taken",
     [](const Event& event) {
       const auto [product, wraps] = product_of(event);
       return !wraps && product >> 63 != 0;
     }},
    {"the element size is left out",
     [](const Event& event) {
       const auto [product, wraps] = product_of(event);
       return !wraps && product >> 63 == 0;
     }},
};

const Weaks kWeakBounds = {
    numbers_that("beyond the file is taken", [](const Numbers& n, std::uint64_t size) { return n[0] > size; }),
    numbers_that("below the one before is taken", [](const Numbers& n, std::uint64_t size) { return n[0] <= size; }),
    numbers_that("one beyond the file is taken", [](const Numbers& n, std::uint64_t size) { return n[0] == size + 1; }),
    numbers_that("the high half is ignored",
                 [](const Numbers& n, std::uint64_t size) { return n[0] > size && (n[0] & kLowHalf) <= size; }),
    numbers_that("it is compared as a signed number", [](const Numbers& n, std::uint64_t) { return n[0] >> 63 != 0; }),
};

const Weaks kWeakChunkSizes = {
    numbers_that("multiples of 64 below 1024 are taken",
                 [](const Numbers& n, std::uint64_t) { return n[0] % 64 == 0 && n[0] > 0; }),
    numbers_that("0 is taken", [](const Numbers& n, std::uint64_t) { return n[0] == 0; }),
    numbers_that("any size from 1024 on is taken", [](const Numbers& n, std::uint64_t) { return n[0] >= 1024; }),
    numbers_that("any multiple of 16 from 1024 on is taken",
                 [](const Numbers& n, std::uint64_t) { return n[0] >= 1024 && n[0] % 16 == 0; }),
};

const Weaks kWeakMacCounts = {
    {"one more is taken", [](const Event& event) { return event.numbers()[0] == messages_of(event) + 1; }},
    {"one less is taken", [](const Event& event) { return event.numbers()[0] + 1 == messages_of(event); }},
    numbers_that("0 is taken", [](const Numbers& n, std::uint64_t) { return n[0] == 0; }),
};

// The numbers are opslimit and memlimit.
const Weaks kWeakPasses = {
    numbers_that("this limit alone is not checked",
                 [](const Numbers& n, std::uint64_t) { return n[1] <= kMemlimitMax; }),
    numbers_that("the high half is ignored",
                 [](const Numbers& n, std::uint64_t) { return (n[0] & kLowHalf) <= kOpslimitMax; }),
    numbers_that("it is compared as a signed number", [](const Numbers& n, std::uint64_t) { return n[0] >> 63 != 0; }),
};
const Weaks kWeakMemory = {
    numbers_that("the high half is ignored",
                 [](const Numbers& n, std::uint64_t) { return (n[1] & kLowHalf) <= kMemlimitMax; }),
    numbers_that("it is compared as a signed number", [](const Numbers& n, std::uint64_t) { return n[1] >> 63 != 0; }),
};

const Weaks kWeakRests = {
    {"zeros are taken", are_zeros},
    {"other bytes than zeros are taken", [](const Event& event) { return !are_zeros(event); }},
    numbers_that("one byte is taken", [](const Numbers& n, std::uint64_t) { return n[0] == 1; }),
    numbers_that("up to eight bytes are taken", [](const Numbers& n, std::uint64_t) { return n[0] <= 8; }),
    numbers_that("more than eight bytes are taken", [](const Numbers& n, std::uint64_t) { return n[0] > 8; }),
};

}  // namespace tzmark::conformance::planted
