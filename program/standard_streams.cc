// Placeholders for closed descriptors, and printing.
#include "program/standard_streams.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <string>

#include "bytes/utf8.h"
#include "io/sigpipe_block.h"
#include "io/stream.h"
#include "io/url.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

// Opens a placeholder for a closed descriptor, in the wrong direction, so that output to a closed stdout fails instead
// of being lost. Without /dev, the placeholder only occupies the number.
int open_placeholder(int fd) {
  constexpr std::array kWrongDirection = {O_WRONLY, O_RDONLY, O_RDWR};
  const int opened = ::open("/dev/null", kWrongDirection.at(static_cast<std::size_t>(fd)));
  return opened >= 0 ? opened : ::open("/", O_PATH);
}

}  // namespace

void open_standard_streams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // open returns the lowest free number, which is this one.
    if (open_placeholder(fd) != fd)
      throw Error(ErrorCode::kResource, fmt::format("descriptor {} cannot be opened", fd));
  }
}

void print(std::string_view text) { print(std::as_bytes(std::span(text))); }

void print(std::span<const std::byte> bytes) { write_stream(STDOUT_FILENO, bytes); }

void print_lines(std::string_view text) {
  std::string lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines += printable(text.substr(0, end));
    if (end < text.size()) lines += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  print(lines);
}

void print_to_stderr(std::string_view text) noexcept {
  try {
    const SigpipeBlock block;
    write_stream(STDERR_FILENO, std::as_bytes(std::span(text)));
  } catch (...) {
    // There is no other place to report it.
  }
}

void tell(std::string_view line) noexcept {
  try {
    print_to_stderr(printable(without_secrets(line)) + "\n");
  } catch (...) {
    print_to_stderr("tzmark: error TZE-ENV-006: out of memory\n");
  }
}

}  // namespace tzmark
