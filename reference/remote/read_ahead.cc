// See remote/read_ahead.h.
#include "remote/read_ahead.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tzmark {
namespace {

// Windows of headers may be read more than once.
constexpr std::size_t kLargeBytes = 1 << 20;

// Copies what the bytes, which begin at begin, have from offset on.
std::size_t copy_from(std::span<const std::byte> bytes, std::uint64_t begin, std::uint64_t offset,
                      std::span<std::byte> out) {
  if (offset < begin || offset - begin >= bytes.size()) return 0;
  const auto at = static_cast<std::size_t>(offset - begin);
  const std::size_t count = std::min(out.size(), bytes.size() - at);
  std::memcpy(out.data(), bytes.data() + at, count);
  return count;
}

}  // namespace

ReadAhead::ReadAhead(std::vector<std::byte> beginning) : beginning_(std::move(beginning)) {
  trails_.front() = {0, beginning_.size(), beginning_.size()};
  next_trail_ = 1;
}

std::size_t ReadAhead::copy(std::uint64_t offset, std::span<std::byte> out) {
  if (const std::size_t count = copy_from(beginning_, 0, offset, out); count > 0) return count;
  Window found{0, nullptr};
  {
    const std::lock_guard lock(mutex_);
    const auto window = std::ranges::find_if(
        windows_, [&](const Window& w) { return offset >= w.offset && offset - w.offset < w.bytes->size(); });
    if (window == windows_.end()) return 0;
    found = *window;
    const bool is_read_to_its_end = found.bytes->size() - (offset - found.offset) <= out.size();
    if (is_read_to_its_end && found.bytes->size() > kLargeBytes) {
      kept_bytes_ -= found.bytes->size();
      windows_.erase(window);
    }
  }
  return copy_from(*found.bytes, found.offset, offset, out);
}

bool ReadAhead::copy_all(std::uint64_t offset, std::span<std::byte> out) {
  if (offset < beginning_.size() && out.size() <= beginning_.size() - offset) {
    return copy_from(beginning_, 0, offset, out) == out.size();
  }
  {
    const std::lock_guard lock(mutex_);
    const bool covers = std::ranges::any_of(windows_, [&](const Window& w) {
      return offset >= w.offset && offset - w.offset < w.bytes->size() &&
             out.size() <= w.bytes->size() - (offset - w.offset);
    });
    if (!covers) return false;
  }
  // Another thread may have taken the window in between.
  return copy(offset, out) == out.size();
}

std::optional<ReadAhead::Claim> ReadAhead::claim(std::uint64_t offset, std::size_t bytes, std::uint64_t file_bytes) {
  std::unique_lock lock(mutex_);
  const auto covers = [&](const auto& entry) {
    return entry.second.is_kept && offset >= entry.first && offset - entry.first < entry.second.bytes;
  };
  if (std::ranges::any_of(in_flight_, covers)) {
    ended_.wait(lock, [&] { return std::ranges::none_of(in_flight_, covers); });
    return std::nullopt;
  }
  Trail& trail = trail_to(offset);
  trail.bytes = std::max(bytes, std::clamp(2 * trail.bytes, kLeastBytes, kMostBytes));
  std::uint64_t end = offset + std::min<std::uint64_t>(trail.bytes, file_bytes - offset);
  // What others have, had, or are reading is not read ahead, unless it is so little that it is not worth a border:
  // between the data of tensors are headers.
  const auto is_little = [&](std::uint64_t count) { return count * 8 < trail.bytes; };
  if (const auto next = in_flight_.upper_bound(offset); next != in_flight_.end() && next->first < end) {
    end = next->second.is_kept ? next->first : std::max(next->first, offset + bytes);
  }
  for (const Window& window : windows_) {
    if (window.offset > offset && !is_little(window.bytes->size())) end = std::min(end, window.offset);
  }
  for (const Trail& other : trails_) {
    if (other.begin <= offset || is_little(other.end - other.begin)) continue;
    end = std::min(end, std::max(other.begin, offset + bytes));
  }
  trail.end = end;
  const auto count = static_cast<std::size_t>(end - offset);
  in_flight_.emplace(offset, InFlight{count, count > bytes});
  return Claim(*this, offset, count);
}

void ReadAhead::end(std::uint64_t offset) {
  const std::lock_guard lock(mutex_);
  in_flight_.erase(in_flight_.find(offset));
  ended_.notify_all();
}

// The lock is held.
ReadAhead::Trail& ReadAhead::trail_to(std::uint64_t offset) {
  // A read of what is there already, such as a header, may lie in between.
  Trail* found = nullptr;
  for (Trail& trail : trails_) {
    const bool ends_here = trail.bytes > 0 && trail.end <= offset && offset - trail.end <= kLeastBytes;
    if (ends_here && (found == nullptr || trail.bytes > found->bytes)) found = &trail;
  }
  if (found != nullptr) return *found;
  Trail& trail = trails_[next_trail_];
  next_trail_ = (next_trail_ + 1) % trails_.size();
  trail = {offset, offset, kLeastBytes / 2};
  return trail;
}

void ReadAhead::add(std::uint64_t offset, std::vector<std::byte> bytes) {
  auto shared = std::make_shared<const Bytes>(std::move(bytes));
  const std::lock_guard lock(mutex_);
  kept_bytes_ += shared->size();
  windows_.push_front({offset, std::move(shared)});
  while (kept_bytes_ > kKeptBytesMax && windows_.size() > 1) {
    kept_bytes_ -= windows_.back().bytes->size();
    windows_.pop_back();
  }
}

}  // namespace tzmark
