// The undo journal of an in-place edit (FILE.tzmark-intent): a file next to the one that is about to be changed, which
// holds what is needed to undo or finish the change. It counts from when it is whole and synced until it is removed.
//
// Anyone who can write to the directory can put a file there. So a journal counts only if it is a regular file with one
// name, belongs to the user or to the file's owner, and may be written only by users who may write to the file; and
// only for the file that it was written for, which it knows by inode, creation time, size and a digest of bytes that
// the change leaves as they are. Everything here works on the directory that the locked file keeps open. For one thread
// at a time. Errors: TZE-ENV-007 for a journal that does not count; TZE-ENV rules.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bytes/digest.h"
#include "os/in_place_file.h"
#include "tzmark/edit.h"
#include "tzmark/io.h"

namespace tzmark {

enum class UndoJournalKind : std::uint32_t {
  kOverwrite = 1,  // the ranges hold old bytes: to undo, put them back and cut the file to its old size
  kInsert = 2,     // room is made: to finish, write the first range. The second and third hold the first and the last
                   // bytes behind insert_at that are not all zeros, if there are any
};

#pragma pack(push, 1)
struct UndoJournalHeaderWire {
  unsigned char magic[8];  // |TZINTE|
  std::uint32_t version;   // 2; version 1 knew its file by file_number alone
  std::uint32_t kind;
  std::uint64_t journal_bytes;  // of the journal, header and digest included
  std::uint64_t file_number;    // of the file that is changed, as are all of the following
  std::int64_t created_s;       // when it was created; zeros where the file system does not say
  std::uint32_t created_ns;
  std::uint64_t file_bytes;      // before the change
  std::uint64_t file_bytes_max;  // during the change and after it
  std::uint64_t insert_at;       // file_bytes if nothing is inserted
  std::uint64_t insert_bytes;
  std::uint64_t range_count;  // ranges follow: u64 offset, u64 length, bytes; then the SHA-256 of all before it
  std::byte unchanged[32];    // SHA-256 of samples of the file that the change leaves as they are
  std::uint32_t crc32;        // of this header before it
};
#pragma pack(pop)
static_assert(sizeof(UndoJournalHeaderWire) == 120);

struct ByteRange {
  std::uint64_t offset, length;
};

constexpr std::array<unsigned char, 8> kUndoJournalMagic = {'|', 'T', 'Z', 'I', 'N', 'T', 'E', '|'};
constexpr std::uint32_t kUndoJournalVersion = 2;
constexpr std::uint64_t kProbeBytesMax = 64;  // of the second and third range of an insertion

std::uint32_t crc32_of(const UndoJournalHeaderWire& header);
// SHA-256 of blocks that are spread over the old file, the changed ranges in them taken for zeros. moved_bytes: by how
// much what was behind insert_at has moved.
Sha256Digest digest_of_unchanged(File& file, const UndoJournalHeaderWire& header, std::span<const ByteRange> changed,
                                 std::uint64_t moved_bytes);
std::string undo_journal_name(const InPlaceFile& locked);  // in its directory
// What the temporary name of a journal begins with, for temporary_name_for.
std::string temporary_journal_stem(const std::string& name);

// Saves the file's bytes of the ranges, as far as it has them. file_bytes_max: how large the change makes the file.
// Who may read the file may read what is saved of it. Returns whether the journal's name is durable, as do those below.
[[nodiscard]] bool write_overwrite_journal(const InPlaceFile& locked, File& file, std::vector<ByteRange> ranges,
                                           std::uint64_t file_bytes_max);
// Room of insert_bytes is to be made at a position, and then bytes are to be written at offset.
[[nodiscard]] bool write_insert_journal(const InPlaceFile& locked, File& file, std::uint64_t at,
                                        std::uint64_t insert_bytes, std::uint64_t offset,
                                        std::span<const std::byte> bytes);

// Whether anything has the journal's name, trusted or not.
bool has_undo_journal(const std::string& file_name);
// Throws TZE-ENV-007, and says what to do, if anything has the journal's name.
void require_no_undo_journal(const std::string& file_name);
[[nodiscard]] bool remove_undo_journal(const InPlaceFile& locked);

// Undoes or finishes what an undo journal tells of, and removes it.
Recovery recover_locked(InPlaceFile& locked, RecoverOptions options = {});

}  // namespace tzmark
