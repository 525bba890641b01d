// The rules that a reader checks, split into clauses: each separate condition that can break a rule.
//
// Thread-safety: constant.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planted_bugs/bugs.h"

namespace tzmark::conformance::planted {

// Where a rule can be broken. Conditions that make no difference for a rule are not planted.
enum Where : unsigned {
  kClassic = 1,  // v1 to v4
  kLongDims = 2,
  kFlaggedDims = 4,
  kHeadersFirst = 8,
  kSegments = 16,
  kRecords = kClassic | kLongDims | kFlaggedDims,
  kAll = kRecords | kHeadersFirst | kSegments,
  kPlain = 32,
  kEncrypted = 64,
  kBoth = kPlain | kEncrypted,
  kAny = kAll | kBoth,
  kTensor = 128,  // there is one check per tensor
  kSealed = kAll | kEncrypted | kTensor,
  kStructuredName = 256,  // only tensors with such names break it
  kData = 512,            // only tensors with data
  kNoData = 1024,         // only tensors without
  kItems = 2048,          // there is one check per item of a list
  kSecret = 4096,         // it matters whether a key or a passphrase is given
  kKnownHeader = 8192,    // the file header can be that of a right file
  kOwnName = 16384,       // the name itself is wrong, so no right tensor can have it
  kPairs = 32768,         // it takes two tensors to break it
};

// A check of the number that the defect has got.
struct Number {
  enum class Right { kNone, kEqual, kAtLeast, kOneOf } right = Right::kNone;
  int width_bytes = 0;
  std::vector<std::uint64_t> wanted = {};  // empty: that of the defect
};

// Defects of one clause of the model, in a field if that is said, that pass the test if there is one.
struct Part {
  model::Clause clause = model::Clause::kStated;
  std::string_view field = {};
  bool (*test)(const model::Defect& defect) = nullptr;

  bool has(const model::Defect& defect) const {
    return defect.clause == clause && (field.empty() || defect.field == field) && (!test || test(defect));
  }
};

struct Clause {
  std::string name;
  Part part;  // which defects of the rule
  Number number = {};
  std::vector<std::pair<std::string, Misses>> weak = {};  // further conditions
};

struct Rule {
  std::string id;
  unsigned where;
  std::vector<Clause> clauses;
  std::vector<std::pair<std::string, Misses>> weak = {};
};

const std::vector<Rule>& rules();

}  // namespace tzmark::conformance::planted
