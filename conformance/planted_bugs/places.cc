// Places at which a check is left out, and what is checked of all tensors together; see places.h.
#include "planted_bugs/places.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>

#include "planted_bugs/event.h"

namespace tzmark::conformance::planted {
namespace {

constexpr int kKinds = 3;
constexpr std::uint64_t kPageBytes = 4096;

bool has_neighbours(const Event& event) { return event.tensor() && event.subject.tensor_count() > 1; }

// A reader that has not reached the kind in the index may know it from the header.
bool is_of_kind(const Event& event, int kind) {
  const std::string in_index = event.in_index("kind");
  const std::string value = in_index.empty() ? event.in_header("kind") : in_index;
  return value == std::string(1, static_cast<char>(kind));
}

std::string entry(std::uint64_t tensor) { return fmt::format("index entry {}", tensor); }
std::string header(std::uint64_t tensor) { return fmt::format("tensor header {}", tensor); }

// Whether the defect is in an index entry that begins after the first page of the index.
bool is_on_later_page(const Event& event) {
  const auto index = event.subject.all("index", "index_length");
  if (index.empty() || !event.tensor()) return false;
  const auto names = event.subject.all(entry(*event.tensor()), "name_length");
  return !names.empty() && names[0]->offset >= index[0]->offset + index[0]->size + kPageBytes;
}

// The tensor whose header or data has the byte that an offset leads to.
std::optional<std::uint64_t> host_of(const Event& event) {
  const std::uint64_t at = event.numbers()[0];
  for (std::uint64_t i = 0; i < event.subject.tensor_count(); ++i) {
    const auto number = [&](const char* name) { return event.subject.number(entry(i), name).value_or(0); };
    const std::uint64_t header_length = event.subject.number(header(i), "header_length").value_or(0);
    const bool in_header = at >= number("header_offset") && at - number("header_offset") < header_length;
    const bool in_data = at >= number("data_offset") && at - number("data_offset") < number("data_length");
    if (i != event.tensor() && (in_header || in_data)) return i;
  }
  return std::nullopt;
}

// The other tensor of a defect of two: that which it names, or that which is at the offset.
std::optional<std::uint64_t> other_of(const Event& event) { return event.other() ? event.other() : host_of(event); }

// Two tensors that a reader does not compare.
Weak pairs_that(std::string name, bool (*missed)(std::uint64_t lower, std::uint64_t upper, std::uint64_t last)) {
  return {std::move(name), [missed](const Event& event) {
            const auto other = other_of(event);
            if (!event.tensor() || !other) return false;
            return missed(std::min<std::uint64_t>(*event.tensor(), *other),
                          std::max<std::uint64_t>(*event.tensor(), *other), event.subject.tensor_count() - 1);
          }};
}

const Weaks& pairs() {
  static const Weaks all = {
      pairs_that("the first tensor is compared with no other",
                 [](std::uint64_t lower, std::uint64_t, std::uint64_t) { return lower == 0; }),
      pairs_that("the last tensor is compared with no other",
                 [](std::uint64_t, std::uint64_t upper, std::uint64_t last) { return upper == last; }),
      pairs_that("every tensor is compared with the first only",
                 [](std::uint64_t lower, std::uint64_t, std::uint64_t) { return lower != 0; }),
      pairs_that("the first and the last tensor are not compared",
                 [](std::uint64_t lower, std::uint64_t upper, std::uint64_t last) {
                   return lower == 0 && upper == last && last > 1;
                 }),
      pairs_that("tensors that are neighbours in the index alone are compared",
                 [](std::uint64_t lower, std::uint64_t upper, std::uint64_t) { return upper - lower > 1; })};
  return all;
}

// All headers together have the values of all entries, but each those of another.
Weak in_any_order(const std::string& field) {
  return {"the values of all tensors are compared in any order", [field](const Event& event) {
            std::multiset<std::string> in_index, in_headers;
            for (std::uint64_t i = 0; i < event.subject.tensor_count(); ++i) {
              in_index.insert(event.subject.text(entry(i), field));
              in_headers.insert(event.subject.text(header(i), field));
            }
            return in_index == in_headers;
          }};
}

std::uint64_t sum(const Event& event, std::string (*structure)(std::uint64_t), const std::string& field) {
  std::uint64_t all = 0;
  for (std::uint64_t i = 0; i < event.subject.tensor_count(); ++i) {
    all += event.subject.number(structure(i), field).value_or(0);
  }
  return all;
}

Weak data_lengths_as_sum() {
  return {"the sum over all tensors is compared",
          [](const Event& event) { return sum(event, entry, "data_length") == sum(event, header, "data_length"); }};
}

// Each defect says what a data_length is and what it should be.
Weak nominal_sizes_as_sum() {
  return {"the sum over all tensors is compared", [](const Event& event) {
            std::uint64_t more = 0;
            for (const model::Defect& defect : event.subject.description.defects) {
              if (defect.rule != event.defect.rule) continue;
              more += numbers_of(defect.got).at(0) - numbers_of(defect.wanted).at(0);
            }
            return more == 0;
          }};
}

Weak mac_counts_as_sum() {
  return {"the sum over all tensors is compared", [](const Event& event) {
            std::uint64_t more = 0;
            for (std::uint64_t i = 0; i < event.subject.tensor_count(); ++i) {
              const std::uint64_t data = event.subject.number(entry(i), "data_length").value_or(0);
              const auto sizes = event.subject.all(header(i), "chunk_size");
              const auto counts = event.subject.all(header(i), "mac_count");
              if (sizes.empty() || counts.empty() || std::stoull(sizes[0]->value) == 0) return false;
              const std::uint64_t size = std::stoull(sizes[0]->value);
              more += std::stoull(counts[0]->value) - (data + size - 1) / size;
            }
            return more == 0;
          }};
}

Weak hash_sizes_as_sum() {
  return {"the sum over the list is compared", [](const Event& event) {
            std::uint64_t wanted = 0, found = 0;
            for (const model::Field* type : event.subject.all(header(event.tensor().value_or(0)), "hash type")) {
              wanted += event.subject.bytes[type->offset] == std::byte{0} ? 4 : 32;
              found += std::to_integer<std::uint64_t>(event.subject.bytes[type->offset + 1]);
            }
            return wanted == found;
          }};
}

Weak shapes_that(std::string name, bool (*same)(const Dims& index, const Dims& header)) {
  return {std::move(name), [same](const Event& event) {
            const Dims index = dims_of(event, event.in_index("dim")),
                       in_header = dims_of(event, event.in_header("dim"));
            const auto product = [](const Dims& dims) {
              return std::accumulate(dims.begin(), dims.end(), std::uint64_t{1}, std::multiplies<>());
            };
            return index.size() == in_header.size() && product(index) == product(in_header) && same(index, in_header);
          }};
}

Weaks shapes() {
  return {shapes_that("the product and the sum of the dimensions are compared",
                      [](const Dims& a, const Dims& b) {
                        return std::accumulate(a.begin(), a.end(), std::uint64_t{0}) ==
                               std::accumulate(b.begin(), b.end(), std::uint64_t{0});
                      }),
          shapes_that("the product, the first and the last dimension are compared",
                      [](const Dims& a, const Dims& b) { return a.front() == b.front() && a.back() == b.back(); }),
          shapes_that("the product and the largest dimension are compared",
                      [](const Dims& a, const Dims& b) { return std::ranges::max(a) == std::ranges::max(b); })};
}

// The first tensors of a file are checked, and no others. A reader may decrypt in another function.
Weaks late_tensors(const Rule& rule) {
  Weaks all;
  for (const std::uint64_t count : {4, 16, 64}) {
    for (const bool encrypted : {false, true}) {
      if (!(rule.where & (encrypted ? kEncrypted : kPlain))) continue;
      all.emplace_back(
          fmt::format("the first {} tensors alone are checked in {} files", count, encrypted ? "encrypted" : "plain"),
          [=, of_two = (rule.where & kPairs) != 0](const Event& event) {
            // Two tensors are compared when the second one is met.
            const std::uint64_t other = of_two ? other_of(event).value_or(0) : 0;
            return event.subject.encrypted() == encrypted &&
                   std::max<std::uint64_t>(event.tensor().value_or(0), other) >= count;
          });
    }
  }
  return all;
}

Weak in_the_first(std::uint64_t bytes) {
  return {fmt::format("the first {} bytes of the rest alone are checked", bytes), [bytes](const Event& event) {
            const auto rooms = event.subject.all("index", "room");
            return !rooms.empty() && event.defect.offset >= rooms[0]->offset + bytes;
          }};
}

Weaks ends_of_lists() {
  return {{"not checked for the first of several items",
           [](const Event& event) {
             const auto item = event.item();
             return item && item->second > 1 && item->first == 0;
           }},
          {"not checked for the last of several items", [](const Event& event) {
             const auto item = event.item();
             return item && item->second > 1 && item->first + 1 == item->second;
           }}};
}

}  // namespace

Weaks places_of(const Rule& rule) {
  if (!(rule.where & kTensor)) return {};
  Weaks places = {{"not checked for the first of several tensors",
                   [](const Event& event) { return has_neighbours(event) && *event.tensor() == 0; }},
                  {"not checked for the last of several tensors", [](const Event& event) {
                     return has_neighbours(event) && *event.tensor() + 1 == event.subject.tensor_count();
                   }}};
  if (!(rule.where & kPairs)) {
    places.emplace_back("not checked in a file of one tensor",
                        [](const Event& event) { return event.tensor() && event.subject.tensor_count() == 1; });
  }
  // Only tensors of kind 2 have structured names, and a kind may itself be what is wrong.
  if (!(rule.where & kStructuredName) && rule.id != "TZR-IDX-004") {
    for (int kind = 0; kind < kKinds; ++kind) {
      places.emplace_back(fmt::format("not checked for tensors of kind {}", kind),
                          [kind](const Event& event) { return is_of_kind(event, kind); });
    }
  }
  return places;
}

Weaks togethers_of(const Rule& rule) {
  static const std::map<std::string, Weaks> all = {
      {"TZR-IDX-003", {in_the_first(kPageBytes), in_the_first(2 * kPageBytes)}},
      {"TZR-IDX-006", {nominal_sizes_as_sum()}},
      {"TZR-REC-006", {in_any_order("name")}},
      {"TZR-REC-007", {in_any_order("kind")}},
      {"TZR-REC-008", {in_any_order("dtype")}},
      {"TZR-REC-009", {in_any_order("dim")}},
      {"TZR-REC-010", {in_any_order("data_length"), data_lengths_as_sum()}},
      {"TZR-HSH-003", {hash_sizes_as_sum()}},
      {"TZR-CRY-009", {mac_counts_as_sum()}},
  };
  Weaks found;
  if (const auto here = all.find(rule.id); here != all.end()) found = here->second;
  const auto add = [&](const Weaks& more) { found.insert(found.end(), more.begin(), more.end()); };
  if (rule.where & kPairs) add(pairs());
  if (rule.where & kItems) add(ends_of_lists());
  if (rule.id == "TZR-REC-009") add(shapes());
  // One rule for each table or loop in which readers keep what they know of tensors; every rule would take a file of
  // many tensors of its own.
  static const std::set<std::string> of_many = {"TZR-REC-009", "TZR-NAM-006", "TZR-HSH-006", "TZR-CRY-016"};
  if (of_many.contains(rule.id)) add(late_tensors(rule));
  // What is in an index entry, and not in a header.
  if (const std::string area = rule.id.substr(4, 3);
      (rule.where & kTensor) && area != "REC" && area != "HSH" && area != "CRY" && area != "SEG") {
    found.emplace_back("not checked after the first page of the index", is_on_later_page);
  }
  return found;
}

}  // namespace tzmark::conformance::planted
