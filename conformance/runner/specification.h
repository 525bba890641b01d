// Writes specifications of the corpus as files that an adapter can read, for encode cases.
//
// Thread-safety: pure functions of their arguments and the file system.
#pragma once

#include <filesystem>
#include <string>

#include "runner/json.h"

namespace tzmark::conformance {

// The bytes of a data recipe: {"hex": DIGITS}, or {"stream": SEED, "length": N}, which is the SHA-256 of "SEED:0", that
// of "SEED:1" and so on, cut to N bytes. Throws EnvironmentError if it is neither.
std::string data_of_recipe(const Json& recipe);

// Writes the data files of a specification of the corpus and the SPEC.json that names them into a directory, and
// returns the latter's path. Throws EnvironmentError if the specification is not one, or a file cannot be written.
std::filesystem::path write_specification(const Json& specification, const std::filesystem::path& directory);

}  // namespace tzmark::conformance
