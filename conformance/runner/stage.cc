// Asks a question in an input mode; see stage.h.
#include "runner/stage.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <sstream>
#include <string>
#include <utility>

#include "model/text.h"
#include "runner/command_line.h"
#include "runner/errors.h"
#include "runner/fifo.h"
#include "runner/file_content.h"
#include "runner/odd_sizes.h"
#include "runner/preload.h"
#include "runner/restrict_self.h"
#include "runner/sha256.h"
#include "runner/staged_file.h"

namespace tzmark::conformance {
namespace {

namespace fs = std::filesystem;

// More than a page, so that a mapping of the range cannot begin where the file does.
constexpr std::uint64_t kRoomMinBytes = 4096;
constexpr std::uint64_t kRoomMaxBytes = 65536;

// Readers wait before they repeat a request.
constexpr std::chrono::seconds kRepeatsElapsedMax(5);

std::string padded(const Room& room, std::span<const std::byte> content) {
  std::string text(room.before_bytes, kRoomFillerBefore);
  text.append(reinterpret_cast<const char*>(content.data()), content.size());
  text.append(room.after_bytes, kRoomFillerAfter);
  return text;
}

fs::path short_reads_library(const InputModeOptions& options) { return options.tools / "libtzmark_short_reads.so"; }

// The first words of a command whose reads are short; setting says of which file.
std::vector<std::string> short_reads_prefix(const fs::path& library, std::uint64_t seed, const std::string& setting) {
  // env itself has started before its setting counts.
  return {"env", preload_setting(library), sanitizer_setting(), setting,
          fmt::format("TZMARK_SHORT_READS_SEED={}", seed)};
}

// Whether there is the program that starts an adapter with a library preloaded; bare systems lack it.
bool has_env_program() {
  const char* const path = std::getenv("PATH");
  std::istringstream directories(path == nullptr ? "" : path);
  for (std::string directory; std::getline(directories, directory, ':');) {
    if (!directory.empty() && ::access((fs::path(directory) / "env").c_str(), X_OK) == 0) return true;
  }
  return false;
}

}  // namespace

std::vector<InputMode> sampled_modes(const InputModeOptions& options) {
  const bool preloads = has_env_program() && (can_be_preloaded(short_reads_library(options)) ||
                                              can_be_preloaded(temporary_directory() / "preloaded.so"));
  return preloads ? std::vector{InputMode::kShortReads, InputMode::kOffset} : std::vector{InputMode::kOffset};
}

Room room_around(std::uint64_t seed, std::uint64_t file_bytes) {
  // Pieces have odd sizes, and adding an even number keeps them odd.
  return {.before_bytes = kRoomMinBytes + odd_piece_bytes(seed, file_bytes, kRoomMaxBytes),
          .after_bytes = kRoomMinBytes + odd_piece_bytes(seed, file_bytes + 1, kRoomMaxBytes)};
}

std::vector<std::string> read_only_prefix(const InputModeOptions& options, const fs::path& directory) {
  return {options.tools / "tzmark-read-only", fs::canonical(directory)};
}

Stage::Stage(const InputModeOptions& options)
    : options_(options),
      count_file_(std::string(sizeof(SharedCounts), '\0'), count_directory_.path()),
      counts_(::open(count_file_.path().c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW)) {
  if (!counts_.open()) fail_call(count_file_.path().c_str());
}

SharedCounts Stage::counts() const {
  // What an adapter has cut off counts nothing.
  SharedCounts counts;
  if (::pread(counts_.get(), &counts, sizeof counts, 0) < 0) fail_call(count_file_.path().c_str());
  return counts;
}

void Stage::shorten(const fs::path& name) {
  struct stat status {};
  // If an earlier question has removed it, the look after this one tells.
  if (::stat(name.c_str(), &status) != 0) return;
  const std::array<std::uint64_t, 2> identity = {status.st_dev, status.st_ino};
  if (::pwrite(counts_.get(), identity.data(), sizeof identity, offsetof(SharedCounts, device)) != sizeof identity) {
    fail_call(count_file_.path().c_str());
  }
}

Step Stage::ask_by_url(InputMode mode, Question question, std::span<const std::byte> content, const Adapter& adapter,
                       Limits limits) {
  const bool with_faults = mode == InputMode::kHttpFaults;
  const std::string sha256 = sha256_of(content);
  const HttpBehaviour behaviour = behaviour_for(sha256, with_faults, options_.seed);
  if (!http_server_) http_server_.emplace();
  HttpServing serving(*http_server_, question.file.filename().string(), content, sha256, behaviour);
  question.url = serving.url();
  question.launch.server_port = http_server_->port();
  if (with_faults) limits.elapsed_max += kRepeatsElapsedMax;
  Step step = adapter.ask(question, limits);
  const HttpCounts counts = serving.end();
  step.mode = mode;
  step.changed_file = !holds(question.file, content);
  step.served =
      fmt::format("the server: {}; requests: {}, failed: {}", describe(behaviour), counts.requests, counts.faults);
  if (counts.requests == 0) step.untried = "no request for the file came";
  return step;
}

Step Stage::ask(InputMode mode, Question question, std::span<const std::byte> content, const Adapter& adapter,
                const Limits& limits) {
  const bool streamed = question.command == Command::kStream;
  const auto ask_about = [&](std::span<const std::byte> whole) {
    Step step = adapter.ask(question, limits);
    step.mode = mode;
    step.changed_file = !holds(question.file, whole);
    return step;
  };
  const auto ask = [&] { return ask_about(content); };
  if (is_served(mode)) return ask_by_url(mode, std::move(question), content, adapter, limits);
  if (mode == InputMode::kPipe && !streamed) {
    const ScratchDirectory directory(ScratchDirectory::Place::kCaseRoot);
    const Fifo fifo(directory.path() / question.file.filename(), content);
    question.directory = directory.path();
    question.file = fifo.path();
    Step step = adapter.ask(question, limits);
    step.mode = mode;
    return step;
  }
  if (mode == InputMode::kOffset) {
    const ScratchDirectory directory(ScratchDirectory::Place::kCaseRoot);
    const Room room = room_around(options_.seed, content.size());
    const std::string whole = padded(room, content);
    question.directory = directory.path();
    question.file = directory.path() / question.file.filename();
    question.part = FileRange{.offset = room.before_bytes, .length = content.size()};
    write_file(question.file, whole);
    return ask_about(std::as_bytes(std::span(whole)));
  }
  if (mode == InputMode::kReadOnly) {
    question.directory.clear();
    question.launch.prefix = read_only_prefix(options_, read_only_directory_.path());
    question.launch.prefix.insert(question.launch.prefix.begin() + 1, kRestrictOption);
    question.launch.enters_ruleset_itself = true;
    question.file = read_only_directory_.path() / question.file.filename();
    write_file(question.file, model::text_of(content));
    Step step = ask();
    fs::remove(question.file);
    return step;
  }
  if (mode != InputMode::kShortReads) return ask();
  if (streamed) {
    Feed feed = *question.feed;
    feed.piece_seed = options_.seed;
    question.feed = &feed;
    return ask();
  }
  if (!short_reads_) short_reads_.emplace(short_reads_library(options_));
  question.launch.prefix = short_reads_prefix(short_reads_->path(), options_.seed,
                                              "TZMARK_SHORT_READS_COUNT=" + count_file_.path().string());
  shorten(question.file);
  const SharedCounts before = counts();
  Step step = ask();
  const SharedCounts after = counts();
  if (content.empty()) return step;  // An empty file cannot be read short.
  if (after.loads == 0) {
    step.untried =
        "no short reads here: the library that shortens them was not loaded, as in static programs, Go among them";
  } else if (after.reads == before.reads) {
    step.untried =
        "no short reads here: no read of the file came by the library that shortens them; the file is mapped, or read "
        "another way";
  }
  return step;
}

std::string input_shell_command(InputMode mode, Question question, const Manifest& manifest, const Adapter& adapter,
                                const InputModeOptions& options) {
  const bool streamed = question.command == Command::kStream;
  if (mode == InputMode::kReadOnly) question.launch.prefix = read_only_prefix(options, manifest.directory);
  // Fixed names, so that a debugger can be restarted with the same command.
  const fs::path directory = temporary_directory() / "tzmark-repro" / name_of(mode);
  if (mode == InputMode::kShortReads && !streamed) {
    fs::path library = short_reads_library(options);
    std::string make;
    if (!can_be_preloaded(library)) {
      make = fmt::format("mkdir -p {} && ln -sfn {} {} && ", join_command({directory.string()}),
                         join_command({library.string()}), join_command({(directory / "preloaded.so").string()}));
      library = directory / "preloaded.so";
    }
    question.launch.prefix =
        short_reads_prefix(library, options.seed, "TZMARK_SHORT_READS_FILE=" + question.file.string());
    return make + adapter.shell_command(question);
  }
  if (streamed || (mode != InputMode::kPipe && mode != InputMode::kOffset)) return adapter.shell_command(question);
  const fs::path staged = directory / question.file.filename();
  const std::string from = join_command({question.file.string()});
  const std::string to = join_command({staged.string()});
  std::string make = fmt::format("mkdir -p {} && rm -f {} && ", join_command({staged.parent_path().string()}), to);
  if (mode == InputMode::kPipe) {
    make += fmt::format("mkfifo {0} && (cat {1} > {0} &) && ", to, from);
  } else {
    const std::uint64_t file_bytes = fs::file_size(question.file);
    const Room room = room_around(options.seed, file_bytes);
    make += fmt::format("{{ head -c {} /dev/zero | tr '\\0' {}; cat {}; head -c {} /dev/zero; }} > {} && ",
                        room.before_bytes, kRoomFillerBefore, from, room.after_bytes, to);
    question.part = FileRange{.offset = room.before_bytes, .length = file_bytes};
  }
  question.file = staged;
  return make + adapter.shell_command(question);
}

}  // namespace tzmark::conformance
