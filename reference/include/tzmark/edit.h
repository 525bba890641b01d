// In-place edits of v5-segments files: appending tensors, renaming and dropping them, changing their kind.
//
// An edit reads and writes only what it concerns. New tensors follow the old terminator. A full segment is doubled, by
// fallocate(FALLOC_FL_INSERT_RANGE) if the file system supports it, otherwise by copying the file.
//
// Crash safety: before the first byte of the file is overwritten, the bytes that will be are synced to an undo journal,
// which gets its name, FILE.tzmark-intent, when it is whole, and the directory is synced. When the change is whole and
// synced, the journal is removed. An interrupted change leaves it: readers then refuse the file with TZE-ENV-007, and
// the next call here undoes the change, or finishes it if only room was made. After recovery the file has the old
// content or the new one. This holds when the process dies and when the machine loses power, provided that the file
// system keeps what was synced: each step is synced before the next one relies on it, and no order of other writes,
// renames and removals is assumed. Readers that know nothing of the journal may see parts of both contents until the
// file is recovered. One case is not safe: ext4 and xfs insert a range by moving extents one after another, and a power
// loss in between can leave some of them moved. Recovery notices that and refuses; the file must then be restored from
// a copy.
//
// A journal is valid only for the file that it was written for. Recovery refuses it with TZE-ENV-007, and leaves it in
// place, if the file's inode, creation time (if the file system records one) or size differs, or the content of a
// sample of 64 unchanged blocks of 4096 bytes. The device number is not compared, since it may change with a reboot. A
// journal must also be a regular file with a single link, owned by the caller or the owner of the file, and writable
// only by those who may write to the file. Files with several hard links are refused, since an edit might replace the
// file under one name only. The file, its directory and its journal are looked up once: an edit never writes to a file
// that takes the place of one of them, and fails if its file loses its name.
//
// Thread-safety: calls lock the file against each other (flock), and fail with TZE-ENV-008 if another process edits it.
// Readers do not lock: do not read a file while it is edited.
// Errors: tzmark::Error. A call that fails leaves the content unchanged; if it cannot undo what it began, the journal
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

// How an edit grew full segments.
struct Growth {
  unsigned times = 0;
  std::uint64_t inserted_bytes = 0;  // inserted by the file system, without moving data
  std::uint64_t copied_bytes = 0;    // copied because the file system could not insert
  std::uint64_t elapsed_ns = 0;      // total, including syncs
  // false: the file system has no fsync of directories, so a loss of power in the middle of the edit could not be
  // recovered from.
  bool names_durable = true;
  bool owner_kept = true;  // false: the copy has a new owner or group, as the caller could not set the old one
};

// Appends the tensors in their order. Calls source.open once per tensor. Ignores layout, index_bytes_min, detached_data
// and existing of options. REQUIRES: options.encrypt is set if and only if the file is encrypted, with the key of its
// other tensors; otherwise kUsage or TZR-CRY-016 is thrown. A passphrase is stretched as it was for those.
Growth append_tensors(const std::string& file_name, const TensorTable& tensors, const TensorSource& source,
                      WriteOptions options = {});

struct TensorEdit {
  Path tensor;  // its name before any of the edits
  std::optional<Path> new_path = {};
  std::optional<Kind> new_kind = {};
  bool drop = false;  // the data stays in the file, unused, until the file is converted
};

struct EditOptions {
  std::optional<KeySource> key;  // a new name or kind requires new hashes, for which the data is decrypted
  KeyDerivationLimits key_derivation_limits;
  std::string io_path = "auto";
  Durability durability = Durability::kIfPossible;
  Progress progress;  // bytes of data that are read
};

// Applies all edits or none. Verifies the hashes of each tensor that gets a new name or kind first.
Growth edit_tensors(const std::string& file_name, const std::vector<TensorEdit>& edits, EditOptions options = {});

enum class Recovery {
  kNothing,   // there was no journal
  kUndone,    // the file has its old content
  kFinished,  // a segment has grown, which changes no content
};

struct RecoverOptions {
  // Accepts a file and journal that were copied or restored from a backup together: the journal may have several links,
  // and the file's inode and creation time may differ. Its size and the sample of unchanged blocks must still match.
  bool restored = false;
};

// Recovers a file from an interrupted edit; the calls above do so first. Throws TZE-ENV-007, and changes nothing, if
// the journal is not valid for the file.
Recovery recover(const std::string& file_name, RecoverOptions options = {});

// Returns what edits left next to the file when they were killed: incomplete copies, FILE.tzmark-grow- and 16
// hexadecimal digits, and where files without a name (O_TMPFILE) do not exist or cannot be linked incomplete journals,
// FILE.tzmark-intent.tmp- and 8. No call opens or removes them, since only their names identify them; delete them if no
// edit is running.
std::vector<std::string> unfinished_files(const std::string& file_name);

// The name of the undo journal, which exists during an edit.
std::string undo_journal_file_name(const std::string& file_name);

}  // namespace tzmark
