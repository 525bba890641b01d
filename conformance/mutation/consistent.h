// Makes a changed file consistent again: lengths, counts, offsets, copies, hashes, ciphertext and MACs.
//
//   std::optional<Draft> draft = take_apart(file, secret);
//   draft->tensors.erase(draft->tensors.begin());
//   std::vector<std::byte> smaller = put_together(*draft);
//
// What should be wrong stays wrong: a draft keeps the deviations of the file that it was made of, and takes others.
//
// Thread-safety: pure functions.
#pragma once

#include "mutation/draft.h"

namespace tzmark::conformance::mutation {

// Nothing if the file has no header or no index that could be read. put_together(*draft) gives the same file again. The
// draft refers to the file. Throws std::runtime_error where the machine fails: no memory to derive a key.
std::optional<Draft> take_apart(model::Bytes file, const model::Secret& secret);

// The file; and where its fields are, if asked.
std::vector<std::byte> put_together(const Draft& draft, std::vector<Site>* sites = nullptr);

// A part of a file that is to have other bytes, as many.
struct Edit {
  std::uint64_t offset = 0;
  std::vector<std::byte> bytes;
};

// The file of a draft with edits made, and all that follows from the edited fields made right. So an edit breaks the
// rules that are about its field, and no others; one of a field that others only depend on breaks none. Edits of data
// are edits of the plaintext. Fields that have one of keep_offsets stay as they were, for example the copy of a name.
// `sites` are those of the draft's own file. Nothing if an edit lies where no field of the draft is, or across two.
//
// Hashes and MACs are those of the tensor's own data, under its own key: they do not follow an offset or a length that
// leads to other data, nor a data version that means another layout, nor the numbers that a key is derived from.
std::optional<std::vector<std::byte>> apply_edits(const Draft& draft, const std::vector<Site>& sites,
                                                  const std::vector<Edit>& edits,
                                                  const std::vector<std::uint64_t>& keep_offsets = {});

}  // namespace tzmark::conformance::mutation
