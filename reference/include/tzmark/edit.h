// Changing v5-segments files in place: adding tensors, renaming and dropping them, giving them another kind.
//
// A change reads and writes only what it is about. New tensors go behind the old terminator; when a segment is full, it
// is doubled: by fallocate(FALLOC_FL_INSERT_RANGE) where the file system has it, else by copying the file.
//
// Crash safety: before the first byte of the file is overwritten, the bytes that will be are synced to an undo journal,
// which gets its name, FILE.tzmark-intent, when it is whole, and the directory is synced. When the change is whole and
// synced, the journal is removed. An interrupted change leaves it: readers then refuse the file with TZE-ENV-007, and
// the next call here undoes the change, or finishes it if only room was made. After recovery the file has the old
// content or the new one. This holds when the process dies and when the machine loses power, provided that the file
// system keeps what was synced: each step is synced before the next one relies on it, and no order of other writes,
// renames and removals is assumed. One case is not safe: ext4 and xfs insert a range by moving extents one after
// another, and a power loss in between can leave some of them moved. Recovery notices that and refuses; the file must
// then be restored from a copy.
//
// A journal counts only for the file that it was written for. It is refused with TZE-ENV-007, and neither obeyed nor
// removed, if the file has another inode, creation time (where the file system knows one) or size, or other bytes in 64
// blocks of 4096 that are spread over it and that the change leaves as they are. The device is not compared, as its
// number changes when a machine starts. A journal also has to be a regular file with one name, owned by the caller or
// by the file's owner, that nobody else may write to who may not write to the file. Files with several hard links are
// refused, as a change under one name would not show under the others. The file, its directory and its journal are
// looked up once; a file that takes the place of one of them during the change is not written to, and a change of a
// file that has lost its name fails.
//
// Calls lock the file against each other (flock) and fail with TZE-ENV-008 if another process changes it. Readers do
// not lock: nobody should read a file while it is changed.
// Errors: tzmark::Error. A call that fails has changed no content; if undoing what it began fails too, the journal
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
  bool owner_kept = true;            // false: the copy belongs to the caller, who could not give it its owner or group
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

struct RecoverOptions {
  // File and journal were copied, linked or restored from a backup together: the journal may have other names, and the
  // file another inode and creation time. Its size and the digest of unchanged bytes still have to be right.
  bool restored = false;
};

// What the calls above do first. On its own: makes a file readable again that an interrupted change has left. Throws
// TZE-ENV-007, having changed nothing, if a journal is there that does not count.
Recovery recover(const std::string& file_name, RecoverOptions options = {});

// Copies of the file that changes have left which were killed while the file grew by being copied: files next to it
// called FILE.tzmark-grow-XXXXXXXXXXXXXXXX, with 16 hexadecimal digits. No call removes them, as only their names tell
// what they are; if no change is under way, they may be deleted. Files of such names are not opened. The same holds for
// FILE.tzmark-intent.tmp-XXXXXXXX, a journal that was not complete, on file systems without unnamed files (O_TMPFILE).
std::vector<std::string> unfinished_copies(const std::string& file_name);

// The undo journal, which is there while a change is under way.
std::string undo_journal_file_name(const std::string& file_name);

}  // namespace tzmark
