// The GroupFile: what of it comes from this rank's own file, from memory, and from the exchange.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "bytes/requires.h"
#include "codec/group_exchange.h"
#include "codec/rank_report.h"
#include "io/paths.h"
#include "tzmark/digest.h"
#include "tzmark/group.h"

namespace tzmark {
namespace {

constexpr std::size_t kChunkAlignBytes = 4096;

// Agreements and the pieces that are kept count from here, so that none is taken for a chunk.
constexpr std::uint64_t kFirstAgreement = std::uint64_t{1} << 62;

template <typename Value>
void hash_value(Sha256& hash, const Value& value) {
  hash.update(std::as_bytes(std::span(&value, 1)));
}

}  // namespace

struct GroupFile::State {
  State(std::unique_ptr<File> f, Group& g, const GroupReadOptions& o) : file(std::move(f)), group(g), options(o) {}

  // What the ranks must have in common to read these ranges together.
  RankReport report_of(std::span<const FileRange> ranges) {
    Sha256 hash;
    hash_value(hash, options.how);
    hash_value(hash, std::uint64_t{options.chunk_bytes});
    hash_value(hash, std::uint64_t{GroupExchange::chunk_bytes_for(options, group.size(), ranges)});
    for (const FileRange& range : ranges) hash_value(hash, range);
    return {.number = next_agreement++, .file_bytes = file->size(), .digest = hash.finish()};
  }

  // Throws on all ranks if own is set on one, or if they are about to do different things.
  void agree_on(std::span<const FileRange> ranges, const std::exception_ptr& own) {
    const std::vector<RankReport> reports = agree(group, report_of(ranges), own);
    for (unsigned rank = 1; rank < reports.size(); ++rank) {
      if (reports[rank].digest == reports[0].digest && reports[rank].file_bytes == reports[0].file_bytes) continue;
      throw Error(ErrorCode::kUsage,
                  fmt::format("rank {} reads other ranges of the file than rank 0, or with other options", rank));
    }
  }

  // Reads from this rank's own file, as far as one call does.
  void read_own(std::uint64_t offset, MutableBuffer out) {
    file->read_at(offset, out);
    storage_bytes += out.size;
  }

  // Rank 0 reads target from its file; all have it then. memory: for it and a report.
  void broadcast_piece(std::uint64_t offset, std::span<std::byte> target, std::span<std::byte> memory) {
    const std::span<std::byte> trailer = memory.last(kReportBytes);
    const std::uint64_t number = next_agreement++;
    const bool is_own = group.rank() == 0;
    if (is_own) {
      RankReport report{.number = number, .file_bytes = file->size()};
      try {
        read_own(offset, memory.first(target.size()));
      } catch (...) {
        report.error = of_rank(0, as_error(std::current_exception()));
      }
      encode_report(report, trailer);
    }
    broadcast_together(group, memory, 0);
    (is_own ? kept_sent_bytes : kept_received_bytes) += memory.size();
    const RankReport report = decode_report(trailer, number);
    if (report.error) throw Error(*report.error);
    std::ranges::copy(memory.first(target.size()), target.begin());
  }

  // Runs what is collective, and remembers a broken group.
  template <typename Action>
  void together(Action&& action) {
    {
      const std::lock_guard lock(mutex);
      if (is_opening.exchange(false)) opening_digest = opening.finish();
    }
    try {
      action();
    } catch (const BrokenGroup&) {
      is_group_broken = true;
      throw;
    }
  }

  const std::unique_ptr<File> file;
  Group& group;
  const GroupReadOptions options;
  std::uint64_t next_agreement = kFirstAgreement;
  std::atomic<bool> is_group_broken = false;

  mutable std::mutex mutex;
  std::atomic<bool> is_opening = true;
  Sha256 opening;
  Sha256Digest opening_digest = {};

  FileRange kept_range;
  std::vector<std::byte> kept;
  std::unique_ptr<GroupExchange> exchange;

  std::atomic<std::uint64_t> storage_bytes = 0, opening_bytes = 0, reread_bytes = 0;
  std::atomic<std::uint64_t> kept_sent_bytes = 0, kept_received_bytes = 0;
};

GroupFile::GroupFile(std::unique_ptr<File> file, Group& group, const GroupReadOptions& options)
    : state_(std::make_unique<State>(std::move(file), group, options)) {
  if (options.chunk_bytes == 0 || options.chunk_bytes % kChunkAlignBytes != 0) {
    throw Error(ErrorCode::kUsage, fmt::format("a group exchanges chunks of a multiple of {} bytes, not of {}",
                                               kChunkAlignBytes, options.chunk_bytes));
  }
  if (const auto& version = state_->file->version()) set_version(*version);
}

GroupFile::~GroupFile() { finish(); }

void GroupFile::keep(FileRange range) {
  State& s = *state_;
  TZMARK_REQUIRES(!s.exchange && range.begin <= range.end && range.end <= size());
  s.together([&] {
    std::vector<std::byte> kept, piece;
    std::exception_ptr own;
    try {
      kept.resize(static_cast<std::size_t>(range.end - range.begin));
      piece.resize(std::min(kept.size(), s.options.chunk_bytes) + kReportBytes);
    } catch (...) {
      own = std::current_exception();
    }
    s.agree_on({&range, 1}, own);
    for (std::size_t at = 0; at < kept.size(); at += s.options.chunk_bytes) {
      const auto target = std::span(kept).subspan(at, std::min(s.options.chunk_bytes, kept.size() - at));
      s.broadcast_piece(range.begin + at, target, std::span(piece).first(target.size() + kReportBytes));
    }
    s.kept = std::move(kept);
    s.kept_range = range;
  });
}

void GroupFile::start(std::span<const FileRange> ranges) {
  State& s = *state_;
  TZMARK_REQUIRES(!s.exchange);
  s.together([&] {
    std::unique_ptr<GroupExchange> exchange;
    std::exception_ptr own;
    try {
      exchange = std::make_unique<GroupExchange>(*s.file, s.group, s.options,
                                                 std::vector<FileRange>(ranges.begin(), ranges.end()));
    } catch (...) {
      own = std::current_exception();
    }
    s.agree_on(ranges, own);
    exchange->run();
    s.exchange = std::move(exchange);
  });
}

void GroupFile::finish() noexcept {
  if (state_->exchange) state_->exchange->finish();
}

std::exception_ptr GroupFile::failure() const {
  const std::optional<Error> failure = state_->exchange ? state_->exchange->failure() : std::nullopt;
  return failure ? std::make_exception_ptr(*failure) : nullptr;
}

bool GroupFile::is_group_broken() const {
  return state_->is_group_broken || (state_->exchange && state_->exchange->is_group_broken());
}

GroupReadCounts GroupFile::counts() const {
  GroupReadCounts counts{.storage_bytes = state_->storage_bytes,
                         .opening_bytes = state_->opening_bytes,
                         .reread_bytes = state_->reread_bytes,
                         .sent_bytes = state_->kept_sent_bytes,
                         .received_bytes = state_->kept_received_bytes};
  if (state_->exchange) state_->exchange->add_to(counts);
  return counts;
}

std::array<std::byte, 32> GroupFile::opening_digest() const {
  const std::lock_guard lock(state_->mutex);
  if (!state_->is_opening) return state_->opening_digest;
  Sha256 so_far = state_->opening;
  return so_far.finish();
}

std::string_view GroupFile::io_path() const { return state_->file->io_path(); }
std::uint64_t GroupFile::size() const { return state_->file->size(); }
std::optional<RequestCounts> GroupFile::request_counts() const { return state_->file->request_counts(); }

// Half of the ring: the rest is for what the group reads ahead.
std::uint64_t GroupFile::window_bytes() const { return state_->exchange ? state_->exchange->ring_bytes() / 2 : 0; }

std::size_t GroupFile::read_some(std::uint64_t offset, MutableBuffer out) {
  State& s = *state_;
  require_host_memory(out, io_path());
  if (offset >= size()) return 0;
  std::size_t count = static_cast<std::size_t>(std::min<std::uint64_t>(out.size, size() - offset));
  if (const FileRange& kept = s.kept_range; offset >= kept.begin && offset < kept.end) {
    count = static_cast<std::size_t>(std::min<std::uint64_t>(count, kept.end - offset));
    std::memcpy(out.data, s.kept.data() + (offset - kept.begin), count);
    return count;
  }
  if (s.exchange) {
    const GroupExchange::Taken taken = s.exchange->take(offset, out.bytes().first(count));
    if (taken.copied > 0) return taken.copied;
    count = taken.bytes_here;
    if (taken.was_dropped) s.reread_bytes += count;
  }
  s.read_own(offset, out.sub(0, count));
  if (s.is_opening) {
    const std::lock_guard lock(s.mutex);
    s.opening.update(out.bytes().first(count));
    s.opening_bytes += count;
  }
  return count;
}

std::size_t GroupFile::write_some(std::uint64_t offset, ConstBuffer) {
  throw Error(ErrorCode::kWriteFailed, "a file that a group reads together cannot be written", offset);
}

void GroupFile::sync_all() {}

}  // namespace tzmark
