// Optional values in JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

namespace tzmark::bench {

// Null for a value that is absent.
template <typename T>
nlohmann::json or_null(const std::optional<T>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
}

}  // namespace tzmark::bench
