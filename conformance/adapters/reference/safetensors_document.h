// Safetensors models in the canonical JSON of the adapter protocol.
#pragma once

#include <string>

#include "tzmark/safetensors.h"

namespace tzmark::adapter {

// JSON text. Members that safetensors files lack are null, or what a converter would choose. Throws tzmark::Error.
std::string decode_safetensors(const SafetensorsReader& reader);

// Of an index of shards, with the tensors by the bytes of their names.
std::string decode_sharded(const SafetensorsReader& reader);

}  // namespace tzmark::adapter
