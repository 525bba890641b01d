// Changing v5-segments files in place: adding tensors, renaming and dropping them, giving them another kind.
//
// A change reads and writes only what it is about. New tensors go behind the old terminator; when a segment is full, it
// is doubled: by fallocate(FALLOC_FL_INSERT_RANGE) where the file system has it, else by copying the file.
//
// Crash safety: before the first byte of the file is overwritten, what it will overwrite is synced to
// FILE.tzmark-intent; when the change is whole and synced, that is removed. A change that was interrupted leaves it
// there. Readers then refuse the file with TZE-ENV-007, and the next call here undoes the change, or finishes it where
// only room was made. So after recovery the file has the old content or the new one.
// What holds for a process that dies holds for a machine that does, as far as its file system keeps what was synced.
// Should it have inserted a part of a range only, recovery notices that and refuses. An intent knows its file by number
// (inode): copying another file over it in place is not noticed, renaming one over it is. Files with several hard links
// are refused, as a change under one name would not show under the others.
//
// Calls lock the file against each other (flock) and fail with TZE-ENV-008 if another process changes it. Readers do
// not lock: nobody should read a file while it is changed.
// Errors: tzmark::Error. A call that fails has changed no content; if undoing what it began fails too, the intent
// stays.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tzmark/crypto.h"
#include "tzmark/format.h"
#include "tzmark/path.h"
#include "tzmark/reader.h"
#include "tzmark/table.h"
#include "tzmark/writer.h"

namespace tzmark {

// What it took to make room in full segments.
struct Growth {
  unsigned times = 0;
  std::uint64_t inserted_bytes = 0;  // by the file system, without moving data
  std::uint64_t copied_bytes = 0;    // of the file, where it had to be copied
  std::uint64_t elapsed_ns = 0;      // of all that, syncing included
};

// Adds the tensors behind those that are there, in their order. source.open is called once for each.
// Of options, layout, index_bytes_min, split and existing mean nothing here. encrypt has to be given if the file is
// encrypted, and only then, with the key of its other tensors; a passphrase is stretched as it was for those.
Growth append_tensors(const std::string& file_name, const TensorTable& tensors, const TensorSource& source,
                      WriteOptions options = {});

struct TensorEdit {
  Path tensor;  // as it is named before any of the edits
  std::optional<Path> new_path = {};
  std::optional<Kind> new_kind = {};
  bool drop = false;  // the data stays where it is, unused, until the file is converted
};

struct EditOptions {
  std::optional<KeySource> key;  // a new name or kind changes what is hashed, so that the data is read, and decrypted
  KeyDerivationLimits key_derivation_limits;
  std::string io_path = "auto";
  Progress progress;  // of data that is read
};

// All edits or none. The hashes of each tensor that gets a new name or kind are verified first.
Growth edit_tensors(const std::string& file_name, const std::vector<TensorEdit>& edits, EditOptions options = {});

enum class Recovery {
  kNothing,   // there was nothing to recover
  kUndone,    // the file has its old content
  kFinished,  // room was made, which changes no content
};

// What the calls above do first. On its own: makes a file readable again that an interrupted change has left.
Recovery recover(const std::string& file_name);

// The file that tells of a change under way.
std::string intent_file_name(const std::string& file_name);

}  // namespace tzmark
