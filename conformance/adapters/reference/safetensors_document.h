// Safetensors models in the canonical JSON of the adapter protocol.
#pragma once

#include <nlohmann/json.hpp>

#include "tzmark/safetensors.h"

namespace tzmark::adapter {

// Members that safetensors files lack are null, or what a converter would choose. Throws tzmark::Error.
nlohmann::ordered_json decode_safetensors(const SafetensorsReader& reader);

// Of an index of shards, with the tensors by the bytes of their names.
nlohmann::ordered_json decode_sharded(const SafetensorsReader& reader);

}  // namespace tzmark::adapter
