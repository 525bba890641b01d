// The formats whose files can be changed and minimized; see format_mutation.h.
#include "mutation/format_mutation.h"

#include <algorithm>
#include <array>

#include "mutation/consistent.h"
#include "runner/explain.h"

namespace tzmark::conformance::mutation {
namespace {

void take_seed_apart(Seed& seed) {
  seed.draft = take_apart(seed.bytes, secret_of(*seed.item));
  if (seed.draft && put_together(*seed.draft, &seed.sites) != seed.bytes) seed.draft.reset();
}

constexpr std::array kRows = {
    FormatMutation{"tensorizer", assess_tensorizer, take_seed_apart, mutate_tensorizer, shrink_tensorizer},
    // Each change takes its file apart again: it is short.
    FormatMutation{"safetensors", assess_safetensors, [](Seed&) {}, mutate_safetensors, shrink_safetensors},
};

}  // namespace

const FormatMutation& mutation_of(const FileFormat& format) {
  return *std::ranges::find(kRows, format.name, &FormatMutation::format);
}

Assessment unread_assessment(model::Bytes file, const std::optional<std::string>& key_hex,
                             const std::optional<std::string>& passphrase) {
  Assessment assessment;
  assessment.item.key_hex = key_hex;
  assessment.item.passphrase = passphrase;
  assessment.item.size_bytes = file.size();
  assessment.item.tier = "MUST";
  return assessment;
}

Assessment assess(const FileFormat& format, model::Bytes file, const std::optional<std::string>& key_hex,
                  const std::optional<std::string>& passphrase) {
  return mutation_of(format).assess(file, key_hex, passphrase);
}

}  // namespace tzmark::conformance::mutation
