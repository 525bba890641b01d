// The intent: a file beside the one that is about to be changed, which holds what is needed to undo or finish the
// change. It counts from when it is whole and synced until it is removed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/in_place.h"
#include "tzmark/edit.h"
#include "tzmark/io.h"

namespace tzmark {

enum class IntentKind : std::uint32_t {
  kOverwrite = 1,  // the ranges hold old bytes: to undo, put them back and cut the file to its old size
  kInsert = 2,     // room is made: if the file has grown, the first range is to be written to finish; the second holds
                   // bytes that then have moved by insert_bytes
};

#pragma pack(push, 1)
struct IntentHeaderWire {
  unsigned char magic[8];  // |TZINTE|
  std::uint32_t version;   // 1
  std::uint32_t kind;
  std::uint64_t intent_bytes;  // of the intent, header and digest included
  std::uint64_t file_number;   // of the file that is changed: whatever took its place is none of our business
  std::uint64_t file_bytes;    // of the file, before the change
  std::uint64_t insert_bytes;
  std::uint64_t range_count;  // ranges follow: u64 offset, u64 length, bytes; then the SHA-256 of all before it
  std::uint32_t crc32;        // of this header before it, so that a damaged length is not taken for a cut intent
};
#pragma pack(pop)
static_assert(sizeof(IntentHeaderWire) == 60);

struct Range {
  std::uint64_t offset, length;
};

// The file that a symbolic link leads to: what is beside it is beside all symbolic links to it.
std::string resolved_file_name(const std::string& file_name);

// Saves the file's bytes of the ranges, as far as it has them. Who may read or change the file, and nobody else, may
// read or change what is saved of it.
void write_overwrite_intent(const std::string& file_name, const InPlaceFile& locked, File& file,
                            std::vector<Range> ranges);
// Room of insert_bytes is to be made at a position, and then bytes are to be written at offset.
void write_insert_intent(const std::string& file_name, const InPlaceFile& locked, File& file, std::uint64_t at,
                         std::uint64_t insert_bytes, std::uint64_t offset, std::span<const std::byte> bytes);

bool has_intent(const std::string& file_name);
void remove_intent(const std::string& file_name);

// Undoes or finishes what an intent tells of, and removes it. The file is locked by the caller.
Recovery recover_locked(const std::string& file_name, InPlaceFile& locked);

}  // namespace tzmark
