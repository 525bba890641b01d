// Makes wrong files of right ones; see mutated_file.h.
#include "mutation/mutated_file.h"

#include <algorithm>

#include "mutation/choices.h"
#include "mutation/mutators.h"

namespace tzmark::conformance::mutation {
namespace {

constexpr int kAttemptsMax = 16;
// What any reader derives in a moment.
constexpr std::uint64_t kCheapMemlimitBytes = 16 << 20;
constexpr std::uint64_t kCheapWork = 4 * kCheapMemlimitBytes;  // bytes times passes

// Whether a reader may derive a key at a cost that breaks the limits of a case. Derivations cost only where there is a
// passphrase, and describe() derives nothing without one.
bool is_costly(const MutatedFile& mutated) {
  if (!mutated.passphrase) return false;
  const auto description = model::describe(mutated.bytes, {});
  std::uint64_t opslimit = 0;
  return std::ranges::any_of(description.fields, [&](const model::Field& field) {
    if (field.name == "opslimit") opslimit = std::stoull(field.value);
    if (field.name != "memlimit") return false;
    const std::uint64_t memlimit = std::stoull(field.value);
    const bool refused = opslimit >= kRefusedOpslimit || memlimit >= kRefusedMemlimitBytes;
    return !refused && (memlimit > kCheapMemlimitBytes || opslimit > kCheapWork / std::max<std::uint64_t>(memlimit, 1));
  });
}

// Another key than the right one, none, or one where none belongs.
void change_secret(MutatedFile& mutated, Random& random) {
  mutated.part = FilePart::kSecret;
  std::string key = mutated.key_hex.value_or(std::string(64, '0'));
  key[random.below(key.size())] = random.pick({'1', '2', '7', 'f'});
  const bool encrypted = mutated.key_hex || mutated.passphrase;
  const std::string passphrase = mutated.passphrase.value_or("") + random.pick({'x', ' ', '1'});
  mutated.key_hex.reset();
  mutated.passphrase.reset();
  switch (random.below(encrypted ? 3 : 2)) {
    case 0:
      mutated.key_hex = key;
      mutated.change = "opened with the key " + key;
      break;
    case 1:
      mutated.passphrase = passphrase;
      mutated.change = "opened with the passphrase '" + passphrase + "'";
      break;
    default:
      mutated.change = "opened without a key";
  }
}

}  // namespace

MutatedFile make_mutated_file(const SeedLists& seeds, std::uint64_t run_seed, std::uint64_t number) {
  Random random(run_seed, number);
  const Seed& seed = random.pick(random.pick(seeds));
  MutatedFile mutated;
  mutated.seed = &seed;
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    mutated.key_hex = seed.item->key_hex;
    mutated.passphrase = seed.item->passphrase;
    mutated.bytes = seed.bytes;
    mutated.consistent = false;
    if (random.one_in(24)) {
      change_secret(mutated, random);
      return mutated;
    }
    mutated.consistent = seed.draft && random.one_in(2);
    FileChange change = mutated.consistent ? change_consistently(seed, random) : change_raw(seed, random);
    mutated.bytes = std::move(change.bytes);
    mutated.part = change.part;
    mutated.change = std::move(change.text);
    if (mutated.bytes != seed.bytes && !is_costly(mutated)) break;
  }
  return mutated;
}

}  // namespace tzmark::conformance::mutation
