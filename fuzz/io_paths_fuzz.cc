// Any bytes as reads of a file, three bytes each: every I/O path of this machine returns what pwrite returns, or fails
// where it fails.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "expect.h"
#include "scratch.h"
#include "tzmark/io.h"

namespace {

using namespace tzmark;

constexpr std::size_t kFileBytes = 3 * 4096 + 777;
constexpr std::size_t kReadsMax = 16;

struct OpenPath {
  std::string name;
  std::unique_ptr<File> file;
};

// Opened once: reading changes nothing.
const std::vector<OpenPath>& paths() {
  static const std::vector<OpenPath> opened = [] {
    std::vector<std::byte> content(kFileBytes);
    for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<std::byte>(i * 31 + i / 251);
    const std::filesystem::path file = fuzz::scratch_directory() / "reads";
    fuzz::write_scratch(file, content);
    std::vector<OpenPath> made;
    made.push_back({"pwrite", open_file(file, OpenMode::kRead, "pwrite")});
    for (const IoPath& path : io_paths()) {
      if (path.name == "pwrite" || path.traits.is_remote || !path.why_unavailable().empty()) continue;
      if (path.traits.moves_device_memory) continue;
      try {
        made.push_back({std::string(path.name), open_file(file, OpenMode::kRead, path.name)});
      } catch (const Error& error) {
        // No direct I/O in memory.
        fuzz::expect(error.error_class() == ErrorClass::kUnavailable, error.what());
      }
    }
    fuzz::expect(made.size() > 1, "another path can be compared with pwrite");
    return made;
  }();
  return opened;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (std::size_t at = 0; at + 3 <= std::min(size, 3 * kReadsMax); at += 3) {
    // Beyond the end too.
    const std::uint64_t offset = (data[at] | data[at + 1] << 8) % (kFileBytes + 64);
    const std::size_t bytes = std::size_t{data[at + 2]} * data[at + 2] / 4;
    std::vector<std::byte> expected(bytes), found(bytes);
    const auto read = [&](const OpenPath& path, std::vector<std::byte>& out) {
      std::ranges::fill(out, std::byte{0xee});
      return fuzz::accepts([&] { path.file->read_at(offset, {out.data(), out.size()}); }, {ErrorClass::kEnvironment});
    };
    const bool reads = read(paths().front(), expected);
    for (const OpenPath& path : paths()) {
      fuzz::expect(read(path, found) == reads, path.name);
      fuzz::expect(!reads || found == expected, path.name);
    }
  }
  return 0;
}
