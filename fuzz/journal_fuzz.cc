// Any bytes as the undo journal next to a file: it counts and its change is undone, or nothing is changed. The hashes
// of half of the inputs are made right, which no mutation would guess.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "codec/undo_journal.h"
#include "expect.h"
#include "scratch.h"
#include "testing/files/memory_file.h"

namespace {

using namespace tzmark;

constexpr std::size_t kFileBytes = 1000;

std::vector<std::byte> model() {
  std::vector<std::byte> bytes(kFileBytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  return bytes;
}

// The ranges that the journal claims to have, as far as they are there.
std::vector<ByteRange> ranges_of(const UndoJournalHeaderWire& header, std::span<const std::byte> rest) {
  std::vector<ByteRange> ranges;
  while (ranges.size() < header.range_count && rest.size() >= sizeof(ByteRange)) {
    ByteRange range{};
    std::memcpy(&range, rest.data(), sizeof(range));
    rest = rest.subspan(sizeof(range));
    ranges.push_back(range);
    rest = rest.subspan(std::min<std::uint64_t>(range.length, rest.size()));
  }
  return ranges;
}

void make_hashes_right(std::vector<std::byte>& journal) {
  if (journal.size() < sizeof(UndoJournalHeaderWire) + sizeof(Sha256Digest)) return;
  UndoJournalHeaderWire header{};
  std::memcpy(&header, journal.data(), sizeof(header));
  std::ranges::copy(kUndoJournalMagic, header.magic);
  header.version = kUndoJournalVersion;
  header.journal_bytes = journal.size();
  MemoryFile file(model());
  const std::span body = std::span(journal).subspan(sizeof(header));
  if (header.file_bytes <= kFileBytes) {
    const std::uint64_t moved = header.kind == 2 ? header.insert_bytes : 0;
    fuzz::accepts(
        [&] {
          const auto digest = digest_of_unchanged(file, header, ranges_of(header, body), moved);
          std::ranges::copy(digest, header.unchanged);
        },
        {ErrorClass::kEnvironment});
  }
  header.crc32 = crc32_of(header);
  std::memcpy(journal.data(), &header, sizeof(header));
  Sha256 hash;
  hash.update(std::span(journal).first(journal.size() - sizeof(Sha256Digest)));
  const auto digest = hash.finish();
  std::ranges::copy(digest, journal.end() - sizeof(Sha256Digest));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> journal(bytes + 1, bytes + size);
  if ((data[0] & 1) != 0) make_hashes_right(journal);
  const std::filesystem::path file = fuzz::scratch_directory() / "model.tensors";
  const std::filesystem::path own_journal = file.string() + ".tzmark-intent";
  const std::vector<std::byte> before = model();
  fuzz::write_scratch(file, before);
  fuzz::write_scratch(own_journal, journal);
  const bool counts = fuzz::accepts([&] { recover(file, {.restored = true}); }, {ErrorClass::kEnvironment});
  fuzz::expect(counts != std::filesystem::exists(own_journal), "a journal that counts is removed, and no other");
  if (!counts) fuzz::expect(test::read_whole(file) == before, "a journal that does not count changes nothing");
  std::filesystem::remove(own_journal);
  return 0;
}
