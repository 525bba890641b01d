// The sharded model that a new one replaces: which files its index names, and which of them are shards of that model.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "os/directory.h"

namespace tzmark::safetensors {

using FileNames = std::set<std::string, std::less<>>;

// What an index names; empty if there is no index, and nothing if it cannot be read.
std::optional<FileNames> files_of_index(const Directory& directory, const std::string& index_name);

// Whether a file has a name that this writer gives to shards of a model, for good or for a moment.
bool is_shard_file_name(std::string_view name, std::string_view base_name);

}  // namespace tzmark::safetensors
