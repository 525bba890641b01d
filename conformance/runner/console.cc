// Printing; see console.h.
#include "runner/console.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <iterator>

#include "model/text.h"

namespace tzmark::conformance {
namespace {

// The categories Cc, Cf, Zl and Zp of Unicode 15 and every Default_Ignorable_Code_Point, as pairs of first and last,
// without U+0009 and U+000A.
constexpr std::array<std::uint32_t, 58> kHidden = {
    0x0000,  0x0008,  0x000b,  0x001f,  0x007f,  0x009f,  0x00ad,  0x00ad,  0x034f,   0x034f,  0x0600,  0x0605,
    0x061c,  0x061c,  0x06dd,  0x06dd,  0x070f,  0x070f,  0x0890,  0x0891,  0x08e2,   0x08e2,  0x115f,  0x1160,
    0x17b4,  0x17b5,  0x180b,  0x180f,  0x200b,  0x200f,  0x2028,  0x202e,  0x2060,   0x206f,  0x3164,  0x3164,
    0xfe00,  0xfe0f,  0xfeff,  0xfeff,  0xffa0,  0xffa0,  0xfff0,  0xfffb,  0x110bd,  0x110bd, 0x110cd, 0x110cd,
    0x13430, 0x1343f, 0x1bca0, 0x1bca3, 0x1d173, 0x1d17a, 0xe0000, 0xe0fff, 0x110000, 0x110000};

bool is_hidden(std::uint32_t code_point) {
  const auto after = std::ranges::upper_bound(kHidden, code_point);
  const bool inside = (after - kHidden.begin()) % 2 == 1;
  return inside || (after != kHidden.begin() && *std::prev(after) == code_point);
}

std::uint32_t code_point_of(std::string_view character) {
  std::uint32_t code_point = static_cast<std::uint8_t>(character[0]);
  if (character.size() > 1) code_point &= 0x7fU >> character.size();
  for (const char c : character.substr(1)) code_point = code_point << 6 | (static_cast<std::uint8_t>(c) & 0x3fU);
  return code_point;
}

// How many bytes the character has that the text begins with; 0 if it is not UTF-8.
std::size_t character_bytes(std::string_view text) {
  const auto lead = static_cast<std::uint8_t>(text[0]);
  const std::size_t bytes = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  return text.size() >= bytes && model::is_utf8(text.substr(0, bytes)) ? bytes : 0;
}

// Returns 0 or the errno.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t moved = ::write(fd, text.data(), text.size());
    if (moved >= 0) {
      text.remove_prefix(static_cast<std::size_t>(moved));
    } else if (errno == EAGAIN) {
      // Another process that shares the descriptor made it non-blocking.
      pollfd waiting{fd, POLLOUT, 0};
      ::poll(&waiting, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace

void open_standard_streams() {
  // The wrong direction on purpose, so that output to a closed standard output is not lost silently.
  constexpr std::array kFlags = {O_WRONLY, O_RDONLY, O_RDWR};
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    int opened = ::open("/dev/null", kFlags.at(static_cast<std::size_t>(fd)));
    if (opened < 0) opened = ::open("/", O_PATH);
    // The lowest number that is free is taken, and that is this one.
    if (opened != fd) throw EnvironmentError(fmt::format("descriptor {} cannot be opened", fd));
  }
}

std::string escape_for_terminal(std::string_view text) {
  std::string safe;
  while (!text.empty()) {
    // Nearly all text is plain, and there may be gigabytes of it.
    const auto is_plain = [](char c) { return (c >= ' ' && c <= '~') || c == '\n'; };
    const std::string_view plain(text.begin(), std::ranges::find_if_not(text, is_plain));
    safe += plain;
    text.remove_prefix(plain.size());
    if (text.empty()) break;
    const std::size_t bytes = character_bytes(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(bytes, 1));
    if (bytes == 0 || is_hidden(code_point_of(character))) {
      for (const char c : character) safe += fmt::format("\\x{:02x}", static_cast<std::uint8_t>(c));
    } else {
      safe += character;
    }
    text.remove_prefix(character.size());
  }
  return safe;
}

void print_text(std::string_view text) {
  const int error = write_all(STDOUT_FILENO, escape_for_terminal(text));
  if (error != 0) throw EnvironmentError(fmt::format("stdout cannot be written: {}", std::strerror(error)));
}

void print_to_stderr(std::string_view text) noexcept {
  // A closed pipe must not end the program.
  sigset_t sigpipe, before, pending;
  ::sigemptyset(&sigpipe);
  ::sigaddset(&sigpipe, SIGPIPE);
  const bool was_pending = ::sigpending(&pending) == 0 && ::sigismember(&pending, SIGPIPE) == 1;
  ::pthread_sigmask(SIG_BLOCK, &sigpipe, &before);
  write_all(STDERR_FILENO, text);
  const timespec at_once{};
  while (!was_pending && ::sigtimedwait(&sigpipe, nullptr, &at_once) < 0 && errno == EINTR) {
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void tell(std::string_view line) noexcept {
  try {
    std::string text = escape_for_terminal(line);
    std::ranges::replace(text, '\n', ' ');
    print_to_stderr("tzmark-conform: " + text + "\n");
  } catch (...) {
    print_to_stderr("tzmark-conform: out of memory\n");
  }
}

}  // namespace tzmark::conformance
