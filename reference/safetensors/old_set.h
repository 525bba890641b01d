// The sharded model that a new one replaces: the files that its index names, and which of them are its shards.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "os/directory.h"

namespace tzmark::safetensors {

using FileNames = std::set<std::string, std::less<>>;

// Returns the files that an index names; an empty set if there is no index, none if it cannot be read.
std::optional<FileNames> files_of_index(const Directory& directory, const std::string& index_name);

// Returns whether files that an index names may be removed: it belongs to this user, or to the owner of a directory
// that no one else can write to. Otherwise anyone could have put it there.
bool may_remove_files_of_index(const Directory& directory, const std::string& index_name);

// Returns a temporary base name for the shards of a model.
std::string temporary_base_name(const std::string& base_name);

// Returns whether this writer gives such names to shards of a model, permanently or temporarily.
bool is_shard_file_name(std::string_view name, std::string_view base_name);

}  // namespace tzmark::safetensors
