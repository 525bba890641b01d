// Readers with one mistake each, of the kinds that implementers make: widths of numbers, buffers, places, state, what
// is valid and unusual, and limits of their own. They are made of the model and run in the process of the test, so that
// a test can ask each about thousands of mutated files.
//
// Thread-safety: one object belongs to one thread; readers remember earlier files.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/model.h"

namespace tzmark::conformance::mutation {

// A question to a reader, with what a right reader finds.
struct AskedFile {
  model::Bytes bytes;
  const model::Secret& secret;
  const model::Description& right;
};

// What a reader would say.
struct Said {
  bool decodes = false;
  bool verifies = false;
  model::Json document;  // if it decodes
};

// What a right reader says.
Said said_of(const model::Description& description);

struct WrongReader {
  std::string name;
  std::string kind;     // "width", "buffer", "place", "state", "unusual" or "limit"
  std::string mistake;  // what it does instead
  std::function<Said(const AskedFile&)> answer;
  // Not empty: why the mutated files of the first seed do not find it.
  std::string out_of_reach = {};
};

std::vector<WrongReader> wrong_readers();

}  // namespace tzmark::conformance::mutation
