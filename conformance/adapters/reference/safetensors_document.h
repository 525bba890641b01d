// Safetensors files as the adapter protocol wants them told.
#pragma once

#include <nlohmann/json.hpp>

#include "tzmark/safetensors.h"

namespace tzmark::adapter {

// Canonical JSON in the protocol's form: what .tensors files have and these lack is null, or what a converter would
// take for it. Throws tzmark::Error.
nlohmann::ordered_json decode_safetensors(const SafetensorsReader& reader);

}  // namespace tzmark::adapter
