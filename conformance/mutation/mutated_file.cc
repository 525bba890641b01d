// Makes wrong files of right ones; see mutated_file.h.
#include "mutation/mutated_file.h"

#include <algorithm>

#include "mutation/choices.h"
#include "mutation/format_mutation.h"
#include "mutation/mutators.h"
#include "mutation/neighbours.h"
#include "mutation/safetensors_mutators.h"

namespace tzmark::conformance::mutation {
namespace {

constexpr int kAttemptsMax = 16;
// How many mutated files are valid neighbours, or made of one.
constexpr std::uint64_t kNeighboursOneIn = 3;
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
  const std::string passphrase = mutated.passphrase.value_or("") + random.pick({'x', ' ', '1', '\n'});
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

// Fills what the mutated file has of a valid neighbour, and returns that as a seed.
Seed as_seed(const Seed& seed, Neighbour&& neighbour, MutatedFile& mutated) {
  Seed made{seed.item, seed.format, {}, {}, std::move(neighbour.draft), {}};
  made.bytes = put_together(*made.draft, &made.sites);
  mutated.bytes = made.bytes;
  mutated.part = neighbour.part;
  mutated.consistent = true;
  mutated.change = std::move(neighbour.text);
  return made;
}

// Another change, of a seed or of a valid neighbour.
void change(const Seed& seed, Random& random, MutatedFile& mutated) {
  mutated.consistent = seed.draft && random.one_in(2);
  FileChange made;
  if (mutated.consistent) {
    made = change_consistently(seed, random);
  } else if (seed.description.fields.empty()) {
    Seed described = seed;
    described.description = model::describe(seed.bytes, {});
    made = change_raw(described, random);
  } else {
    made = change_raw(seed, random);
  }
  mutated.bytes = std::move(made.bytes);
  mutated.part = made.part;
  if (!mutated.change.empty()) mutated.change += "; and ";
  mutated.change += made.text;
}

}  // namespace

void mutate_tensorizer(const Seed& seed, Random& random, MutatedFile& mutated) {
  if (random.one_in(24)) return change_secret(mutated, random);
  std::optional<Seed> neighbour;
  if (seed.draft && random.one_in(kNeighboursOneIn)) {
    neighbour = as_seed(seed, make_neighbour(seed, random), mutated);
  }
  if (!neighbour || random.one_in(2)) change(neighbour ? *neighbour : seed, random, mutated);
  // For the next attempt.
  if (is_costly(mutated)) mutated.bytes = seed.bytes;
}

void mutate_safetensors(const Seed& seed, Random& random, MutatedFile& mutated) {
  std::optional<SafetensorsDraft> draft = take_apart_safetensors(seed.bytes);
  FileChange made;
  if (!draft || random.one_in(6)) {
    made = change_safetensors_raw(seed, random);
  } else {
    mutated.consistent = true;
    const bool is_neighbour = random.one_in(kNeighboursOneIn);
    if (is_neighbour) {
      made.part = make_safetensors_neighbour(*draft, random, made.text);
      made.bytes = write(*draft);
    }
    if (!is_neighbour || random.one_in(2)) {
      if (is_neighbour) mutated.change = made.text + "; and ";
      made = change_safetensors(std::move(*draft), random);
    }
  }
  mutated.bytes = std::move(made.bytes);
  mutated.part = made.part;
  mutated.change += made.text;
}

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
    mutated.change.clear();
    mutation_of(*seed.format).mutate(seed, random, mutated);
    if (mutated.part == FilePart::kSecret || mutated.bytes != seed.bytes) break;
  }
  return mutated;
}

}  // namespace tzmark::conformance::mutation
