// Ways in which a reader checks too little: a part of a number, some bytes of a text, one end of a range.
//
// Thread-safety: pure functions and constants.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "planted_bugs/bugs.h"

namespace tzmark::conformance::planted {

// What the reader does, and which defects it misses.
using Weak = std::pair<std::string, Misses>;
using Weaks = std::vector<Weak>;
using Dims = std::vector<std::uint64_t>;

// A regular expression finds something in the tensor's name or dtype.
Weak name_with(std::string name, const std::string& pattern);
Weak dtype_with(std::string name, const std::string& pattern);

// What the defect has got: these bytes, or one of these numbers.
Weak text_that(std::string name, bool (*missed)(std::string_view text));
Weak number_in(std::string name, const Numbers& missed);

// The name or the dtype contains these bytes.
Weak contains(std::string name, const std::string& field, const std::string& bytes);

// UTF-8 as a decoder reads it that lets some of its rules go.
struct Lenience {
  bool overlong = false;
  bool surrogates = false;
  bool large = false;
  bool long_forms = false;  // of five and six bytes
  bool cut_at_end = false;
  bool stray = false;  // a continuation byte with nothing before it
};
Weak utf8_with(std::string name, Lenience lets);

// The bits of the feature flags that should not be set.
Weak bits_that(std::string name, bool (*missed)(const Numbers& bits));

// The file was opened before by the same process.
Weak path_known(std::string name);

// UTF-8 is checked in a part of the name's bytes.
Weaks utf8_in_parts();

// A number of the dtype, which the expression captures, is too large in these units and wraps to one that is allowed.
Weak dtype_wraps(std::string name, const std::string& pattern, std::uint64_t unit, int bits);

// A field of text is compared between index and header in a part of its bytes, of which the first may be up to `most`.
Weaks as_bytes(const std::string& field, std::size_t most);

// The name of the other tensor of a defect of two names.
std::string other_name(const Event& event);

bool version_is(const Event& event, int data_version);

// Whether the tensor has a crypt chunk of that type.
bool has_chunk(const Event& event, std::uint64_t type);

// The dimensions that a field of the tensor has, as wide as its entry says.
Dims dims_of(const Event& event, const std::string& bytes);

extern const Weaks kWeakShapes, kWeakTrees, kWeakOrders, kWeakHashes, kWeakDataPlaces, kWeakHeaderPlaces, kWeakLengths,
    kWeakNominal, kWeakBounds, kWeakChunkSizes, kWeakMacCounts, kWeakPasses, kWeakMemory, kWeakRests;

}  // namespace tzmark::conformance::planted
