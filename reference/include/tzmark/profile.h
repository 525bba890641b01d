// Settings for reading and writing files that suit a storage, as `tzmark tune` finds them.
//
// A profile is a JSON file with settings for up to three tasks: loading files that the page cache holds, loading files
// that it does not hold, and saving. docs/library.md has its members.
//
//   const Profile profile = load_profile("nvme.json");
//   ReadOptions options;
//   apply(profile.loading(file_name), options);
//
// Thread-safety: all functions are thread-safe. Errors: tzmark::Error; kUsage for a profile that is not as above.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tzmark/memory.h"

namespace tzmark {

// Absent members leave an option as it is.
struct ProfileSettings {
  std::optional<std::string> io_path = {};        // "auto", or a path of the registry
  std::optional<std::uint64_t> block_bytes = {};  // largest transfer: 4 KiB to 1 GiB
  std::optional<unsigned> queue_depth = {};       // transfers in flight, over all threads; 0 = the I/O path's default
  std::optional<unsigned> threads = {};           // compute threads; 0 = one per core
  std::optional<HostMemory::Pages> pages = {};    // for Reader::load

  friend bool operator==(const ProfileSettings&, const ProfileSettings&) = default;
};

struct Profile {
  std::string note;  // for people; not used
  std::optional<ProfileSettings> load_warm, load_cold, save;

  // The settings for loading a file: load_warm if at least half of it is in the page cache, else load_cold; the other
  // one if that is absent; none if both are. A file whose state the system does not tell counts as cold, standard input
  // ("-") as warm. Throws nothing for a file that does not exist: opening it tells.
  ProfileSettings loading(const std::string& file_name) const;
  // The settings for saving; none if they are absent.
  ProfileSettings saving() const;

  friend bool operator==(const Profile&, const Profile&) = default;
};

// Sets the options that the settings name. Call it before you set options of your own.
// Options: ReadOptions, WriteOptions, DeviceReadOptions, and those of safetensors and checkpoints; an option that these
// lack is left out.
// Where parts have a size of their own, a block below piece_bytes leaves that as it is: a piece holds a whole message
// of encryption, and messages that are longer than a piece are read twice.
template <typename Options>
void apply(const ProfileSettings& settings, Options& options) {
  if constexpr (requires { options.io_path; }) {
    if (settings.io_path) options.io_path = *settings.io_path;
  }
  if constexpr (requires { options.threads; }) {
    if (settings.threads) options.threads = *settings.threads;
  }
  if constexpr (requires { options.queue_depth; }) {
    if (settings.queue_depth) options.queue_depth = *settings.queue_depth;
  }
  if constexpr (requires { options.part_bytes; }) {
    if (settings.block_bytes) {
      options.part_bytes = *settings.block_bytes;
      if (options.piece_bytes < options.part_bytes) options.piece_bytes = options.part_bytes;
    }
  } else if constexpr (requires { options.piece_bytes; }) {
    if (settings.block_bytes) options.piece_bytes = *settings.block_bytes;
  }
}

// No profile has more bytes.
inline constexpr std::uint64_t kProfileBytesMax = 1 << 16;

Profile parse_profile(std::string_view json);
std::string serialize(const Profile& profile);  // JSON that parse_profile accepts

// Reads a profile from the current position of a descriptor on, up to the end.
Profile load_profile(int descriptor);
// Throws TZE-ENV-001 if the file cannot be opened. Accepts a pipe such as <(command).
Profile load_profile(const std::string& file_name);

}  // namespace tzmark
