// Makes a changed file consistent again: lengths, counts, offsets, copies, hashes, ciphertext and MACs.
//
//   std::optional<Draft> draft = take_apart(file, secret);
//   draft->tensors.erase(draft->tensors.begin());
//   std::vector<std::byte> smaller = put_together(*draft);
//
// Deliberate faults stay: a draft keeps the deviations of its file, and accepts others.
//
// Thread-safety: pure functions.
#pragma once

#include "mutation/draft.h"

namespace tzmark::conformance::mutation {

// Nothing if the file has no readable header or index. put_together(*draft) restores the same file. The draft refers to
// the file. Throws std::runtime_error if there is no memory to derive a key.
std::optional<Draft> take_apart(model::Bytes file, const model::Secret& secret);

// Returns the file, and in sites the positions of its fields.
std::vector<std::byte> put_together(const Draft& draft, std::vector<Site>* sites = nullptr);

// Replaces bytes of a file by as many others.
struct Edit {
  std::uint64_t offset = 0;
  std::vector<std::byte> bytes;
};

// Returns the file of a draft with edits, in which everything that depends on the edited fields is correct again. So an
// edit breaks only the rules about its field, and none if other fields merely depend on it. Edits of data are edits of
// the plaintext. Fields at keep_offsets stay unchanged, for example the copy of a name. `sites` are those of the
// draft's own file. Nothing if an edit is outside of all fields of the draft, or spans two. Hashes and MACs are those
// of the tensor's own data, under its own key, even if an edit changes an offset, a length, the layout, or the numbers
// that a key is derived from.
std::optional<std::vector<std::byte>> apply_edits(const Draft& draft, const std::vector<Site>& sites,
                                                  const std::vector<Edit>& edits,
                                                  const std::vector<std::uint64_t>& keep_offsets = {});

}  // namespace tzmark::conformance::mutation
