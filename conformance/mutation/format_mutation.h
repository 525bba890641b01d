// What changing, minimizing and judging of single files needs to know of a format: a row for each.
//
// Thread-safety: rows are constant; their functions are pure but for the random numbers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mutation/asking.h"
#include "mutation/assess.h"
#include "mutation/mutated_file.h"
#include "mutation/random.h"
#include "mutation/seeds.h"
#include "runner/file_format.h"

namespace tzmark::conformance::mutation {

struct FormatMutation {
  std::string_view format;  // the name of its row in runner/file_format.h
  Assessment (*assess)(model::Bytes file, const std::optional<std::string>& key_hex,
                       const std::optional<std::string>& passphrase);
  // Takes a seed apart.
  void (*prepare)(Seed& seed);
  // Fills what the file has that is made. It may be the seed itself: then another is asked for.
  void (*mutate)(const Seed& seed, Random& random, MutatedFile& mutated);
  // Nothing if the file has no structure to take apart.
  std::optional<std::vector<std::byte>> (*shrink)(model::Bytes file, const model::Secret& secret, Asking& asking);
};

const FormatMutation& mutation_of(const FileFormat& format);

// What is known of a file before its content is: size, secret and tier.
Assessment unread_assessment(model::Bytes file, const std::optional<std::string>& key_hex,
                             const std::optional<std::string>& passphrase);
Assessment assess_tensorizer(model::Bytes file, const std::optional<std::string>& key_hex,
                             const std::optional<std::string>& passphrase);
Assessment assess_safetensors(model::Bytes file, const std::optional<std::string>& key_hex,
                              const std::optional<std::string>& passphrase);
void mutate_tensorizer(const Seed& seed, Random& random, MutatedFile& mutated);
void mutate_safetensors(const Seed& seed, Random& random, MutatedFile& mutated);
std::optional<std::vector<std::byte>> shrink_tensorizer(model::Bytes file, const model::Secret& secret, Asking& asking);
std::optional<std::vector<std::byte>> shrink_safetensors(model::Bytes file, const model::Secret& secret,
                                                         Asking& asking);

}  // namespace tzmark::conformance::mutation
