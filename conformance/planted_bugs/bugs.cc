// Pairs of place and condition; see bugs.h.
#include "planted_bugs/bugs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include "planted_bugs/clauses.h"
#include "planted_bugs/places.h"

namespace tzmark::conformance::planted {
namespace {

using Conditions = std::vector<std::pair<std::string, Misses>>;

struct Family {
  Where bit;
  std::string name;
  bool (*holds)(std::string_view layout);
};

const std::array<Family, 5> kFamilies = {
    {{kClassic, "v1 to v4", [](std::string_view layout) { return layout.size() == 2; }},
     {kLongDims, "v5-long-dims", [](std::string_view layout) { return layout == "v5-long-dims"; }},
     {kFlaggedDims, "v5-flagged-dims", [](std::string_view layout) { return layout == "v5-flagged-dims"; }},
     {kHeadersFirst, "v5-headers-first", [](std::string_view layout) { return layout == "v5-headers-first"; }},
     {kSegments, "v5-segments", [](std::string_view layout) { return layout == "v5-segments"; }}}};

bool is_structured(const Event& event) { return event.in_index("name").starts_with('\x1e'); }

bool has_data(const Event& event) {
  const std::string length = event.in_index("data_length");
  return std::ranges::any_of(length, [](char byte) { return byte != 0; });
}

bool has_passphrase(const Event& event) { return event.subject.item.secret.passphrase.has_value(); }
bool has_key(const Event& event) { return event.subject.item.secret.key.has_value(); }

bool not_first(const Event& event) { return event.tensor() && *event.tensor() > 0; }
bool not_last(const Event& event) { return event.tensor() && *event.tensor() + 1 < event.subject.tensor_count(); }

Misses no(Misses test) {
  return [test = std::move(test)](const Event& event) { return !test(event); };
}

// What another file of the same process told.
bool name_is_known(const Event& event) {
  return event.tensor() && event.history.knows("name " + event.in_index("name"), event.subject.question);
}
bool file_header_is_known(const Event& event) {
  return event.history.knows("header " + event.subject.file_header(), event.subject.question);
}

// Where in the file or in the run the check is made.
Conditions conditions_of(const Rule& rule) {
  Conditions all = {{"not checked", [](const Event&) { return true; }}};
  const bool has_layouts = std::popcount(rule.where & kAll) > 1;
  for (const Family& family : kFamilies) {
    if (!has_layouts || !(rule.where & family.bit)) continue;
    all.emplace_back("not checked in " + family.name,
                     [&family](const Event& event) { return family.holds(event.layout); });
  }
  if ((rule.where & kPlain) && (rule.where & kEncrypted)) {
    all.emplace_back("checked in encrypted files only", [](const Event& event) { return !event.subject.encrypted(); });
    all.emplace_back("checked in plain files only", [](const Event& event) { return event.subject.encrypted(); });
  }
  if (rule.where & kSecret) {
    all.emplace_back("checked with a passphrase only", no(has_passphrase));
    all.emplace_back("checked with a raw key only", no(has_key));
    all.emplace_back("checked without a secret only",
                     [](const Event& event) { return has_key(event) || has_passphrase(event); });
  }
  if (rule.where & kItems) {
    all.emplace_back("checked for the first item of a tensor only",
                     [](const Event& event) { return event.item() && event.item()->first > 0; });
    all.emplace_back("checked for the last item of a tensor only",
                     [](const Event& event) { return event.item() && event.item()->first + 1 < event.item()->second; });
  }
  if (rule.where & kKnownHeader) {
    all.emplace_back("not checked below a file header that was read before", file_header_is_known);
  }
  if (!(rule.where & kTensor)) return all;
  all.emplace_back("checked for the first tensor only", not_first);
  all.emplace_back("checked for the last tensor only", not_last);
  if (!(rule.where & kStructuredName)) {
    all.emplace_back("checked for structured names only", no(is_structured));
    all.emplace_back("checked for plain names only", is_structured);
  }
  if (!(rule.where & (kData | kNoData))) {
    all.emplace_back("checked for tensors with data only", no(has_data));
    all.emplace_back("checked for tensors without data only", has_data);
  }
  if (!(rule.where & kOwnName)) all.emplace_back("not checked for a name that was accepted before", name_is_known);
  return all;
}

bool is_right(const Number& number, std::uint64_t got, std::uint64_t wanted) {
  switch (number.right) {
    case Number::Right::kEqual:
      return got == wanted;
    case Number::Right::kAtLeast:
      return got >= number.wanted.at(0);
    case Number::Right::kOneOf:
      return std::ranges::find(number.wanted, got) != number.wanted.end();
    case Number::Right::kNone:
      break;
  }
  return false;
}

Conditions conditions_of(const Clause& clause) {
  const Number& number = clause.number;
  Conditions all;
  // What the defect has got, and what is wanted where that is a number.
  const auto add = [&](std::string name, std::function<bool(std::uint64_t got, std::uint64_t wanted)> misses) {
    all.emplace_back(std::move(name), [misses](const Event& event) {
      const Numbers numbers = event.numbers();
      return misses(numbers[0], numbers[1]);
    });
  };
  const auto narrow = [&](std::string name, int bits) {
    const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
    add(std::move(name), [number, mask](std::uint64_t got, std::uint64_t wanted) {
      return is_right(number, got & mask, wanted & mask);
    });
  };
  if (number.right == Number::Right::kNone) return all;
  // A part of a number that is too small is too small as well.
  const bool has_most = number.right != Number::Right::kAtLeast;
  if (has_most && number.width_bytes > 1) narrow("the low byte alone is checked", 8);
  if (has_most && number.width_bytes > 2) narrow("the high half is ignored", 4 * number.width_bytes);
  const bool zero_is_least = !number.wanted.empty() && number.wanted.front() == 0;
  if (has_most) {
    add("one above is taken",
        [number](std::uint64_t got, std::uint64_t wanted) { return is_right(number, got - 1, wanted); });
  }
  if (!zero_is_least) {
    add("one below is taken",
        [number](std::uint64_t got, std::uint64_t wanted) { return is_right(number, got + 1, wanted); });
  }
  if (number.right == Number::Right::kEqual || number.right == Number::Right::kOneOf) {
    add("more is taken", [number](std::uint64_t got, std::uint64_t wanted) {
      return got > (number.wanted.empty() ? wanted : number.wanted.back());
    });
    if (!zero_is_least) {
      add("less is taken", [number](std::uint64_t got, std::uint64_t wanted) {
        return got < (number.wanted.empty() ? wanted : number.wanted.front());
      });
    }
  }
  return all;
}

bool breaks(const model::Defect& defect, const Rule& rule, const Clause& clause) {
  return defect.rule == rule.id && clause.part.has(defect);
}

}  // namespace

std::vector<Bug> planted_bugs() {
  std::vector<Bug> bugs;
  for (const Rule& rule : rules()) {
    const auto add = [&](const std::string& clause, const Conditions& conditions, const Misses& here) {
      for (const auto& [name, misses] : conditions) {
        bugs.push_back(
            {rule.id, clause, name, [here, misses](const Event& event) { return here(event) && misses(event); }});
      }
    };
    const auto in_rule = [id = rule.id](const Event& event) { return event.defect.rule == id; };
    add("", conditions_of(rule), in_rule);
    add("", places_of(rule), in_rule);
    add("", togethers_of(rule), in_rule);
    add("", rule.weak, in_rule);
    for (const Clause& clause : rule.clauses) {
      Conditions conditions = conditions_of(clause);
      conditions.insert(conditions.end(), clause.weak.begin(), clause.weak.end());
      if (rule.clauses.size() > 1) {
        conditions.insert(conditions.begin(), {"not checked", [](const Event&) { return true; }});
        if (rule.where & kTensor) {
          conditions.insert(conditions.end(), {{"checked for the first tensor only", not_first},
                                               {"checked for the last tensor only", not_last}});
          const auto places = places_of(rule);
          conditions.insert(conditions.end(), places.begin(), places.end());
        }
      }
      add(clause.name, conditions, [&rule, &clause](const Event& event) { return breaks(event.defect, rule, clause); });
    }
  }
  return bugs;
}

std::size_t clauses_of(const model::Defect& defect) {
  std::size_t count = 0;
  for (const Rule& rule : rules()) {
    for (const Clause& clause : rule.clauses) count += breaks(defect, rule, clause) ? 1 : 0;
  }
  return count;
}

}  // namespace tzmark::conformance::planted
