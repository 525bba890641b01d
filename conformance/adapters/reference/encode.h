// Writes the file of an adapter protocol specification (PROTOCOL.md, "encode") with the reference codec.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tzmark/crypto.h"

namespace tzmark::adapter {

// Encrypts if there is a key. Throws tzmark::Error, of class usage where the specification is none, no file can hold it
// or no writer may write it.
void encode(const std::string& specification_file, const std::string& out, std::optional<KeySource> key);

}  // namespace tzmark::adapter
