// tzmark inspect --bytes; see annotate_command.h.
#include "commands/annotate_command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "model/model.h"
#include "model/text.h"
#include "program/local_name.h"
#include "runner/console.h"
#include "runner/errors.h"
#include "runner/file_format.h"
#include "runner/json.h"

namespace tzmark::conformance {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLineBytes = 16;
constexpr std::size_t kNameMaxBytes = 4096;
constexpr std::string_view kDigits = "0123456789abcdef";
constexpr std::uint64_t kFoldBytes = 4 * kLineBytes;

[[noreturn]] void fail(const std::string& name) {
  throw EnvironmentError(fmt::format("{}: {}", name, std::strerror(errno)));
}

// Copies standard input, which may be a pipe, to a file without a name.
int spool_input() {
  std::string name = fs::temp_directory_path() / "tzmark-inspect-XXXXXX";
  const int file = ::mkstemp(name.data());
  if (file < 0) fail(name);
  ::unlink(name.c_str());
  std::array<char, 1 << 16> block;
  for (ssize_t got = 0; (got = ::read(STDIN_FILENO, block.data(), block.size())) != 0;) {
    if (got < 0 && errno != EINTR) fail("standard input");
    for (ssize_t done = 0, wrote = 0; done < got; done += wrote) {
      wrote = ::write(file, block.data() + done, static_cast<std::size_t>(got - done));
      if (wrote < 0) fail("copy of standard input");
    }
  }
  return file;
}

// The file that is mapped, for the handler.
struct Mapped {
  const std::byte* memory = nullptr;
  std::size_t bytes = 0;
  std::string name;
} mapped;

// What a read past the new end of a shortened file, or a failing device, raises. Allocates nothing: a process may have
// sent the signal at any time.
void end_at_bus_error(int number, siginfo_t* information, void*) {
  const auto offset =
      reinterpret_cast<std::uintptr_t>(information->si_addr) - reinterpret_cast<std::uintptr_t>(mapped.memory);
  if (information->si_code <= 0 || offset >= mapped.bytes) {
    ::signal(number, SIG_DFL);
    ::raise(number);
    return;
  }
  static std::array<char, kNameMaxBytes + 200> text;
  const auto written = fmt::format_to_n(text.data(), text.size(),
                                        "tzmark: {}: error TZE-ENV-005 at byte {}: the file became shorter or "
                                        "unreadable\n",
                                        mapped.name, offset);
  print_to_stderr({text.data(), std::min(written.size, text.size())});
  ::_exit(3);
}

// Maps the file until the process ends, so that a file of any size takes no memory.
model::Bytes map_file(const std::string& name) {
  const int fd = name == "-" ? spool_input() : ::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  // Of a block device, too.
  const off_t end = fd < 0 ? -1 : ::lseek(fd, 0, SEEK_END);
  if (end < 0) fail(name);
  if (end == 0) return {};
  const auto size = static_cast<std::size_t>(end);
  void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (memory == MAP_FAILED) fail(name);
  mapped = {static_cast<const std::byte*>(memory), size, one_line(name, kNameMaxBytes)};
  struct sigaction action {};
  action.sa_sigaction = end_at_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
  return {mapped.memory, mapped.bytes};
}

class Printer {
 public:
  Printer(model::Bytes file, bool unfolded) : file_(file), unfolded_(unfolded) {}

  void print(std::uint64_t begin, std::uint64_t end, std::string_view meaning) {
    const std::uint64_t length = end - begin;
    const bool fold = !unfolded_ && length > kFoldBytes;
    const std::uint64_t shown_end = fold ? begin + 2 * kLineBytes : end;
    for (std::uint64_t at = begin; at < shown_end; at += kLineBytes) {
      fmt::format_to(std::back_inserter(text_), "{:>12}  ", at);
      const std::size_t hex_begin = text_.size();
      for (const std::byte byte : file_.subspan(at, std::min(kLineBytes, shown_end - at))) {
        text_ += {kDigits[std::to_integer<unsigned>(byte >> 4)],
                  kDigits[std::to_integer<unsigned>(byte & std::byte{15})], ' '};
      }
      text_.resize(at == begin ? hex_begin + 3 * kLineBytes : text_.size() - 1, ' ');
      if (at == begin) text_.append("  ").append(meaning);
      text_ += '\n';
      if (text_.size() > 1 << 20) flush();
    }
    if (fold) fmt::format_to(std::back_inserter(text_), "{:>12}  ({} more bytes)\n", "...", end - shown_end);
  }

  void flush() {
    print_text(text_);
    text_.clear();
  }

 private:
  model::Bytes file_;
  bool unfolded_;
  std::string text_;
};

std::string meaning_of(const model::Field& field, model::Bytes file) {
  std::string meaning = field.structure + ": " + field.name;
  if (!field.value.empty()) meaning += " = " + field.value;
  for (std::uint64_t i = 0; i < field.numbers; ++i) {
    const std::uint64_t size = field.size / field.numbers;
    meaning += i == 0 ? " = " : ", ";
    meaning += std::to_string(model::little_endian(file.subspan(field.offset + i * size, size)));
  }
  return meaning;
}

// Whether the file is the head of detached data, an extension of tzmark that breaks rules on purpose: it has the last
// of the reserved flags and no other, and bounds and offsets that count in another file.
bool has_detached_data(model::Bytes file) {
  constexpr std::size_t kVersionAt = 5, kFlagsAt = 9, kFlagsBytes = 32;
  if (file.size() < kFlagsAt + kFlagsBytes || model::little_endian(file.subspan(kVersionAt, 4)) != 5) return false;
  const model::Bytes flags = file.subspan(kFlagsAt, kFlagsBytes);
  const model::Bytes between = flags.subspan(1, kFlagsBytes - 2);
  return (flags.front() | std::byte{1}) == std::byte{1} && flags.back() == std::byte{0x80} &&
         std::ranges::count(between, std::byte{0}) == std::ssize(between);
}

}  // namespace

void add_annotate_options(CLI::App& app, AnnotateArguments& arguments) {
  app.add_option("FILE", arguments.file, "The .tensors or safetensors file; - = standard input")
      ->required()
      ->check(why_not_local);
  app.add_flag("--unfolded", arguments.unfolded, "Show long data in full");
}

int run_annotate(const AnnotateArguments& arguments, const fs::path&, const std::atomic<bool>&) {
  // Nothing has to be cleaned up, so that a signal may end the program at once.
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    if (::signal(number, SIG_DFL) == SIG_IGN) ::signal(number, SIG_IGN);
  }
  if (is_index_name(arguments.file)) {
    throw UsageError(fmt::format("{}: an index of shards is JSON: name one of its shards", arguments.file));
  }
  const model::Bytes file = map_file(arguments.file);
  const bool detached = has_detached_data(file);
  const std::set<std::string> without =
      detached ? std::set<std::string>{"TZR-HDR-004", "TZR-SEG-002", "TZR-IDX-010", "TZR-IDX-015"}
               : std::set<std::string>();
  const model::Outline outline = format_of_file(file, arguments.file).describe_structure(file, without);
  const auto defect = std::ranges::find_if(outline.defects, model::refuses_decode);
  const bool refused = defect != outline.defects.end();

  Printer printer(file, arguments.unfolded);
  std::uint64_t position = 0;
  const auto fill_to = [&](std::uint64_t offset, std::string_view meaning) {
    if (offset > position) printer.print(position, offset, refused ? "file: no field" : meaning);
    position = std::max(position, offset);
  };
  outline.visit_fields([&](const model::Field& field) {
    if (detached && field.name == "data") return;
    fill_to(field.offset, "file: room");
    const std::uint64_t end = field.offset + field.size;
    // Fields of a broken file may overlap; no byte is shown twice.
    if (end > position) printer.print(position, end, meaning_of(field, file));
    position = std::max(position, end);
  });
  fill_to(file.size(), "file: rest, ignored");
  printer.flush();
  if (!refused) return 0;
  const std::string place = defect->offset ? fmt::format(" at byte {}", *defect->offset) : "";
  print_to_stderr(escape_for_terminal(fmt::format("tzmark: {}: error {}{}: {}", arguments.file, defect->rule, place,
                                                  model::sentence_of(*defect))) +
                  "\n");
  return 1;
}

}  // namespace tzmark::conformance
