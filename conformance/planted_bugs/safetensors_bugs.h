// Readers of safetensors with one mistake each. What such a reader does with a file is what a right one does with the
// file that it takes it for: a bug is the change from the one to the other.
//
// Thread-safety: pure functions.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mutation/safetensors_draft.h"

namespace tzmark::conformance::planted {

struct SafetensorsBug {
  std::string rule;  // of SAFETENSORS.md, that the reader breaks
  std::string name;  // what it does, to complete "a reader that"
  // Makes of the file what the reader takes it for. Returns false if it refuses the file.
  std::function<bool(mutation::SafetensorsDraft&)> misread;
};

using SafetensorsBugs = std::vector<SafetensorsBug>;

inline void plant(SafetensorsBugs& bugs, std::string rule, std::string name,
                  std::function<bool(mutation::SafetensorsDraft&)> misread) {
  bugs.push_back({std::move(rule), std::move(name), std::move(misread)});
}

// A mistake that changes a file, and refuses none.
template <typename Change>
std::function<bool(mutation::SafetensorsDraft&)> takes(const Change& change) {
  return [change](mutation::SafetensorsDraft& draft) {
    change(draft);
    return true;
  };
}

// Bugs of JSON, of its strings, and of what is before and behind it.
SafetensorsBugs bugs_of_header();
// Bugs of metadata, and of what an object has twice.
SafetensorsBugs bugs_of_metadata();
// Bugs of dtypes, shapes, sizes and numbers.
SafetensorsBugs bugs_of_tensors();
// Bugs of offsets and data.
SafetensorsBugs bugs_of_data();

// Where something is in a header.
enum class Place { kRoot, kTensorName, kTensor, kMember, kDtype, kShape, kOffsets, kMetadata, kMetadataText, kIgnored };

// "in the name of a tensor"
std::string_view words_of(Place place);

// Calls with each string as it is written, of kTensorName, kMember (its key), kDtype, kMetadata (a key), kMetadataText
// or kIgnored (keys too).
void for_each_string(mutation::SafetensorsDraft& draft, Place place, const std::function<void(std::string&)>& visit);

// Calls with each object and array of kRoot, kTensor, kShape, kOffsets, kMetadata or kIgnored, inner ones first.
void for_each_container(mutation::SafetensorsDraft& draft, Place place,
                        const std::function<void(mutation::JsonValue&)>& visit);

// Calls with the values that are no container, of kShape, kOffsets, kMetadata or kIgnored, and their positions.
void for_each_scalar(mutation::SafetensorsDraft& draft, Place place,
                     const std::function<void(mutation::JsonValue&, std::size_t position)>& visit);

}  // namespace tzmark::conformance::planted
