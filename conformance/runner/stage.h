// Puts the file of a question into an input mode, and asks.
//
// Thread-safety: one object belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/adapter.h"
#include "runner/input_mode.h"
#include "runner/manifest.h"
#include "runner/preload.h"
#include "runner/scratch_file.h"

namespace tzmark::conformance {

// What input modes are made with.
struct InputOptions {
  std::vector<InputMode> modes = {InputMode::kFile};
  std::uint64_t seed = 20;      // of odd sizes and offsets
  std::filesystem::path tools;  // the folder with the programs of conformance/input_modes
};

// Where a file of that many bytes lies in a larger one: at an odd offset, and something lies behind it.
struct Room {
  std::uint64_t before_bytes = 0;
  std::uint64_t behind_bytes = 0;
};
Room room_around(std::uint64_t seed, std::uint64_t file_bytes);

// What fills the room, so that no part of it looks like a file of the format.
inline constexpr char kRoomFiller = 'x';

class Stage {
 public:
  // options has to outlive the object. Throws EnvironmentError if there is no place for temporary files.
  explicit Stage(const InputOptions& options);

  // The question's file lies in the corpus, with this content. Throws EnvironmentError as Adapter::ask does, and if
  // the file cannot be put into the input mode.
  Step ask(InputMode mode, Question question, const Manifest& manifest, std::span<const std::byte> content,
           const Adapter& adapter, std::chrono::nanoseconds elapsed_max, std::uint64_t memory_max_bytes);

 private:
  // Processes that have loaded the library, and reads that came by it.
  struct Counts {
    std::uint64_t loads = 0;
    std::uint64_t reads = 0;
  };
  Counts counts() const;

  const InputOptions& options_;
  ScratchFile count_file_;
  std::optional<Preload> short_reads_;  // made by the first question that needs it
};

// The words that start a command for which the corpus is on a read-only mount.
std::vector<std::string> read_only_prefix(const InputOptions& options, const std::filesystem::path& corpus);

// The line for a shell with process substitution that puts the file of a question into an input mode and asks. stdin
// comes without the pauses that make its reads short.
std::string input_shell_command(InputMode mode, Question question, const Manifest& manifest, const Adapter& adapter,
                                const InputOptions& options);

}  // namespace tzmark::conformance
