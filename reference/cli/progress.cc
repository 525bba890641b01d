// Drawing of the progress line.
#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "cli/commands.h"
#include "program/standard_streams.h"

namespace tzmark::cli {
namespace {

constexpr std::chrono::milliseconds kDrawEvery(200);

}  // namespace

ProgressLine::ProgressLine(std::string verb, bool forced)
    : verb_(std::move(verb)), shown_(forced || ::isatty(STDERR_FILENO) == 1) {}

std::function<void(std::uint64_t)> ProgressLine::callback() {
  if (!shown_) return {};
  return [this](std::uint64_t bytes) { add(bytes); };
}

void ProgressLine::add(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  done_bytes_ += bytes;
  const auto now = Clock::now();
  if (now < next_draw_) return;
  next_draw_ = now + kDrawEvery;
  const std::uint64_t percent = total_bytes_ == 0 ? 0 : std::min<std::uint64_t>(100, done_bytes_ * 100 / total_bytes_);
  const double seconds = std::max(1e-3, std::chrono::duration<double>(now - begin_).count());
  const auto rate = static_cast<std::uint64_t>(static_cast<double>(done_bytes_) / seconds);
  print_to_stderr(fmt::format("\r\x1b[K{}: {} of {} ({} %), {}/s", verb_, human_bytes(done_bytes_),
                              human_bytes(total_bytes_), percent, human_bytes(rate)));
  drawn_ = true;
}

void ProgressLine::clear() {
  const std::lock_guard lock(mutex_);
  if (drawn_) print_to_stderr("\r\x1b[K");
  drawn_ = false;
}

}  // namespace tzmark::cli
