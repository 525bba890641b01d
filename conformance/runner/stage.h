// Asks a question with its file in an input mode.
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
#include "runner/descriptor.h"
#include "runner/http_server.h"
#include "runner/input_mode.h"
#include "runner/manifest.h"
#include "runner/preload.h"
#include "runner/scratch_directory.h"
#include "runner/scratch_file.h"
#include "runner/shared_counts.h"

namespace tzmark::conformance {

// The input modes of a run, and what they need.
struct InputModeOptions {
  std::vector<InputMode> modes = {InputMode::kFile};
  // Each valid file that a reader takes as a plain file is asked about in one of these as well.
  std::vector<InputMode> sampled = {};
  std::uint64_t seed = 20;      // of short reads, pieces and offsets
  std::filesystem::path tools;  // directory of the programs of conformance/input_modes
};

// The input modes of which each valid file and some others are asked about in one, where a run names none: those that
// need no right that a machine may refuse. Adapters that do not claim offset are not asked in it.
std::vector<InputMode> sampled_modes(const InputModeOptions& options);

// The bytes around a file in a larger one: it begins at an odd offset, and other bytes follow it.
struct Room {
  std::uint64_t before_bytes = 0;
  std::uint64_t after_bytes = 0;
};
Room room_around(std::uint64_t seed, std::uint64_t file_bytes);

// Fills the room in front, no part of which looks like a file of the format. Behind are zeros: to a reader that goes on
// there, a file that was cut off seems to have its data and its terminator.
inline constexpr char kRoomFillerBefore = 'x';
inline constexpr char kRoomFillerAfter = '\0';

class Stage {
 public:
  // options has to outlive the object. Throws EnvironmentError if there is no place for temporary files.
  explicit Stage(const InputModeOptions& options);

  // Asks about a file with this content, and looks whether it has changed. Throws EnvironmentError as Adapter::ask
  // does, and if this machine cannot provide the input mode.
  Step ask(InputMode mode, Question question, std::span<const std::byte> content, const Adapter& adapter,
           const Limits& limits);

 private:
  SharedCounts counts() const;
  // From here on, reads of this file are short.
  void shorten(const std::filesystem::path& file);

  Step ask_by_url(InputMode mode, Question question, std::span<const std::byte> content, const Adapter& adapter,
                  Limits limits);

  const InputModeOptions& options_;
  // One for all questions, so that a process that sees its mount can serve them. Adapters may not write to it.
  ScratchDirectory read_only_directory_;
  ScratchDirectory count_directory_{ScratchDirectory::Place::kCaseRoot};  // adapters write to the file in it
  ScratchFile count_file_;
  Descriptor counts_;  // of the file, whatever an adapter puts in its place
  // Made by the first question that needs each.
  std::optional<Preload> short_reads_;
  std::optional<HttpServer> http_server_;
};

// The first words of a command that sees a directory on a read-only mount.
std::vector<std::string> read_only_prefix(const InputModeOptions& options, const std::filesystem::path& directory);

// The shell command (bash, zsh) that asks a question in an input mode. stdin comes without the pauses that make its
// reads short.
std::string input_shell_command(InputMode mode, Question question, const Manifest& manifest, const Adapter& adapter,
                                const InputModeOptions& options);

}  // namespace tzmark::conformance
