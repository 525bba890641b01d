// Readers that keep too little, and readers with buffers; see habits.h.
#include "planted_bugs/habits.h"

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <utility>

namespace tzmark::conformance::planted {
namespace {

using model::Json;
using model::KeyDerivation;

// Buffers that implementations have: of 4 KiB to 4 MiB.
constexpr int kBitsMin = 12;
constexpr int kBitsMax = 22;
constexpr std::uint64_t kMultiplesMax = 3;

void add_keys(std::vector<Habit>& all) {
  const auto add = [&](std::string condition, KeyDerivation (*kept)(KeyDerivation)) {
    all.push_back({.about = "derived keys", .condition = std::move(condition), .keeps_key_under = kept});
  };
  add("known by salt and memlimit", [](KeyDerivation key) {
    key.opslimit = 0;
    return key;
  });
  add("known by salt and opslimit", [](KeyDerivation key) {
    key.memlimit = 0;
    return key;
  });
  add("known by its salt alone", [](KeyDerivation key) { return KeyDerivation{.salt = std::move(key.salt)}; });
  add("known by its numbers alone", [](KeyDerivation key) {
    key.salt.clear();
    return key;
  });
  add("one for a file", [](KeyDerivation) { return KeyDerivation{}; });
}

// Gives tensors with a known key the data that was there first.
void add_data(std::vector<Habit>& all) {
  const auto add = [&](std::string condition, std::string (*key_of)(const Json& tensor)) {
    all.push_back({.about = "data of tensors", .condition = std::move(condition), .lists = [key_of](Json& document) {
                     std::map<std::string, Json> known;
                     for (Json& tensor : document["tensors"]) {
                       Json& hash = tensor["sha256"];
                       if (!hash.is_null()) hash = known.emplace(key_of(tensor), hash).first->second;
                     }
                   }});
  };
  add("known by its CRC32", [](const Json& tensor) {
    return tensor["crc32_field"].is_null() ? tensor["path"].dump() : tensor["crc32_field"].get<std::string>();
  });
  add("known by its length", [](const Json& tensor) { return tensor["data_length"].dump(); });
  add("known by type and shape",
      [](const Json& tensor) { return tensor["wire_dtype"].dump() + tensor["shape"].dump(); });
  add("known by the first part of its path", [](const Json& tensor) { return tensor["path"].at(0).dump(); });
  add("known by the last part of its path", [](const Json& tensor) { return tensor["path"].back().dump(); });
  add("known by its module index", [](const Json& tensor) { return tensor["module_index"].dump(); });
}

// Whether a length is one of the first multiples of 2^bits, and `more` bytes.
bool is_beside_multiple(std::uint64_t length, int bits, std::int64_t more) {
  const std::uint64_t bytes = length - static_cast<std::uint64_t>(more);
  const std::uint64_t multiple = bytes >> bits;
  return multiple << bits == bytes && multiple >= 1 && multiple <= kMultiplesMax;
}

void add_buffers(std::vector<Habit>& all) {
  for (const bool encrypted : {false, true}) {
    for (int bits = kBitsMin; bits <= kBitsMax; ++bits) {
      for (const std::int64_t more : {-1, 0, 1, 5}) {
        all.push_back({.about = encrypted ? "encrypted data" : "plain data",
                       .condition = fmt::format("lost at up to {} x 2^{}{:+}", kMultiplesMax, bits, more),
                       .lists = [=](Json& document) {
                         if (document["encrypted"] != encrypted) return;
                         for (Json& tensor : document["tensors"]) {
                           Json& hash = tensor["sha256"];
                           const bool is_lost =
                               is_beside_multiple(tensor["data_length"].get<std::uint64_t>(), bits, more);
                           if (is_lost && !hash.is_null()) hash = "of other bytes";
                         }
                       }});
      }
    }
  }
}

}  // namespace

std::vector<Habit> habits() {
  std::vector<Habit> all;
  add_keys(all);
  add_data(all);
  add_buffers(all);
  return all;
}

}  // namespace tzmark::conformance::planted
