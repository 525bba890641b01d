// What is tuned: a goal in one cache state. Values; thread-safe; never throws.
#pragma once

#include <cstdint>
#include <string_view>

#include "subjects/subject.h"

namespace tzmark::bench {

enum class TuneTask : std::uint8_t { kLoadWarm, kLoadCold, kLoadServer, kSave };

// "load-warm", "load-cold", "load-server", "save", as in the result document.
constexpr std::string_view name_of(TuneTask task) {
  switch (task) {
    case TuneTask::kLoadWarm:
      return "load-warm";
    case TuneTask::kLoadCold:
      return "load-cold";
    case TuneTask::kLoadServer:
      return "load-server";
    case TuneTask::kSave:
      break;
  }
  return "save";
}

// "warm", "cold", "server", "none"
constexpr std::string_view cache_name(TuneTask task) {
  switch (task) {
    case TuneTask::kLoadWarm:
      return "warm";
    case TuneTask::kLoadCold:
      return "cold";
    case TuneTask::kLoadServer:
      return "server";
    case TuneTask::kSave:
      break;
  }
  return "none";
}

}  // namespace tzmark::bench
