// Makes wrong files of right ones; see mutate.h.
#include "mutate.h"

#include <algorithm>

#include "mutators.h"

namespace tzmark::conformance::mutation {
namespace {

constexpr int kAttemptsMax = 16;
// A key derivation that may take so much is right, and takes seconds.
constexpr std::uint64_t kCheapMemlimitBytes = 16 << 20;
constexpr std::uint64_t kMemlimitMaxBytes = 1 << 30;

// Derivations cost only where there is a passphrase, and describe() derives nothing without one.
bool is_costly(const Mutant& mutant) {
  if (!mutant.passphrase) return false;
  const auto description = model::describe(mutant.bytes, {});
  return std::any_of(description.fields.begin(), description.fields.end(), [](const model::Field& field) {
    if (field.name != "memlimit") return false;
    const std::uint64_t bytes = std::stoull(field.value);
    return bytes > kCheapMemlimitBytes && bytes <= kMemlimitMaxBytes;
  });
}

// Another key than the right one, none, or one where none belongs.
void change_secret(Mutant& mutant, Random& random) {
  mutant.part = Part::kSecret;
  std::string key = mutant.key_hex.value_or(std::string(64, '0'));
  key[random.below(key.size())] = random.pick({'1', '2', '7', 'f'});
  const bool encrypted = mutant.key_hex || mutant.passphrase;
  const std::string passphrase = mutant.passphrase.value_or("") + random.pick({'x', ' ', '1'});
  mutant.key_hex.reset();
  mutant.passphrase.reset();
  switch (random.below(encrypted ? 3 : 2)) {
    case 0:
      mutant.key_hex = key;
      mutant.change = "opened with the key " + key;
      break;
    case 1:
      mutant.passphrase = passphrase;
      mutant.change = "opened with the passphrase '" + passphrase + "'";
      break;
    default:
      mutant.change = "opened without a key";
  }
}

}  // namespace

Mutant make_mutant(const std::vector<std::vector<Seed>>& seeds, std::uint64_t run_seed, std::uint64_t number) {
  Random random(run_seed, number);
  const Seed& seed = random.pick(random.pick(seeds));
  Mutant mutant;
  mutant.seed = &seed;
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    mutant.key_hex = seed.item->key_hex;
    mutant.passphrase = seed.item->passphrase;
    mutant.bytes = seed.bytes;
    mutant.mended = false;
    if (random.one_in(24)) {
      change_secret(mutant, random);
      return mutant;
    }
    mutant.mended = seed.draft && random.one_in(2);
    Change change = mutant.mended ? change_mended(seed, random) : change_raw(seed, random);
    mutant.bytes = std::move(change.bytes);
    mutant.part = change.part;
    mutant.change = std::move(change.text);
    if (mutant.bytes != seed.bytes && !is_costly(mutant)) break;
  }
  return mutant;
}

}  // namespace tzmark::conformance::mutation
