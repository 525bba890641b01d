// Writing a file of tensors by a group: rank 0 makes it, each rank writes its tensors into it, and rank 0 names it.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "bytes/requires.h"
#include "codec/rank_report.h"
#include "codec/undo_journal.h"
#include "codec/write_plan.h"
#include "codec/write_records.h"
#include "io/paths.h"
#include "os/atomic_file.h"
#include "os/replaced_source.h"
#include "os/temporary_name.h"
#include "tzmark/digest.h"
#include "tzmark/group.h"

namespace tzmark {
namespace {

// What the ranks agree on, one after another.
enum class WriteStep : std::uint64_t {
  kPlanned = std::uint64_t{1} << 62,
  kCreated,
  kJoined,
  kPagesWritten,
  kWritten,
  kNamed,
};

// The digest of everything that a plan writes besides headers and data, in order. Not thread-safe.
class FrameDigest final : public File {
 public:
  std::string_view io_path() const override { return "frame"; }
  std::uint64_t size() const override { return 0; }
  void add(std::uint64_t value) { hash_.update(std::as_bytes(std::span(&value, 1))); }
  Sha256Digest finish() { return hash_.finish(); }

 protected:
  std::size_t read_some(std::uint64_t, MutableBuffer) override { return 0; }
  std::size_t write_some(std::uint64_t offset, ConstBuffer in) override {
    add(offset);
    hash_.update(in.bytes());
    return in.size;
  }
  void sync_all() override {}

 private:
  Sha256 hash_;
};

WritePlan plan_for_group(const TensorTable& tensors, const WriteOptions& options) {
  if (options.encrypt) throw Error(ErrorCode::kUsage, "a group writes no encrypted files: their keys are made anew");
  if (options.detached_data) throw Error(ErrorCode::kUsage, "a group writes one file: no detached data");
  return {tensors, options};
}

RankReport report_of(const WritePlan& plan, const WriteOptions& options) {
  FrameDigest frame;
  plan.write_frame(frame, frame);
  // What is in headers alone, or is about the whole file.
  for (std::size_t i = 0; i < plan.tensors().size(); ++i) frame.add(plan.tensors()[i].module_index);
  for (const bool choice : {options.crc32, options.sha256, options.unhashed, options.verify_source}) frame.add(choice);
  frame.add(static_cast<std::uint64_t>(options.existing));
  frame.add(static_cast<std::uint64_t>(options.durability));
  return {.number = static_cast<std::uint64_t>(WriteStep::kPlanned),
          .file_bytes = plan.file_bytes(),
          .digest = frame.finish()};
}

// Throws the same on all ranks.
void require_same_plan(const std::vector<RankReport>& reports) {
  for (unsigned rank = 1; rank < reports.size(); ++rank) {
    if (reports[rank].file_bytes == reports[0].file_bytes && reports[rank].digest == reports[0].digest) continue;
    throw Error(ErrorCode::kUsage,
                fmt::format("rank {} would write another file than rank 0: other tensors or options", rank));
  }
}

// The same: unless the ranges divide the tensors. ranges: memory for one of each rank.
void require_division(Group& group, std::vector<TensorRange> ranges, const TensorRange& own, std::size_t tensors) {
  ranges[group.rank()] = own;
  gather_together(group, std::as_writable_bytes(std::span(ranges)));
  std::erase_if(ranges, [](const TensorRange& range) { return range.first == range.end; });
  std::ranges::sort(ranges, {}, &TensorRange::first);
  std::size_t end = 0;
  for (const TensorRange& range : ranges) {
    if (range.first != end || range.end < range.first || range.end > tensors) {
      throw Error(ErrorCode::kUsage,
                  fmt::format("the ranks' tensors {} to {} do not follow {} of {}: each is written by one rank",
                              range.first, range.end, end, tensors));
    }
    end = range.end;
  }
  if (end != tensors) throw Error(ErrorCode::kUsage, fmt::format("no rank writes the tensors from {} on", end));
}

// The file that rank 0 has begun, as it is broadcast.
struct BegunWire {
  std::array<char, NAME_MAX + 1> name;  // in its directory
  std::uint64_t inode, owner;
};

// The file that rank 0 makes.
class MadeByFirst {
 public:
  MadeByFirst(const std::string& file_name, const WritePlan& plan, const TensorSource& source,
              const WriteOptions& options)
      : directory_(directory_for(file_name, options.durability)),
        output_(directory_, file_name, options.io_path, options.existing),
        replaced_(directory_, std::array{name_in_directory(file_name)}, source.files()) {
    output_.file().reserve(plan.file_bytes());
    plan.write_frame(output_.file(), output_.file());
    // Other machines ask the server.
    output_.file().sync();
    std::ranges::copy(output_.name_for_others(), begun_.name.begin());
    const struct stat status = status_of(AtomicFileIn::state(output_).descriptor.get());
    begun_.inode = status.st_ino;
    begun_.owner = status.st_uid;
  }

  File& file() { return output_.file(); }
  const BegunWire& begun() const { return begun_; }
  bool commit(const NamesWait& wait) { return replaced_.commit(output_, wait); }

 private:
  const std::shared_ptr<const Directory> directory_;
  AtomicFileIn output_;
  const ReplacedSource replaced_;
  BegunWire begun_{};
};

// That file on another rank, which removes it, too, if it fails or a signal ends it: rank 0 may be dead then.
class MadeByOther {
 public:
  // Others may write to the directory: throws TZE-ENV rules unless the file is that of rank 0, which they cannot open.
  // Nothing is read: it would stay in caches that do not see what other machines write, as GlusterFS has.
  MadeByOther(const std::string& file_name, const BegunWire& begun, std::string_view io_path)
      : directory_(std::make_shared<const Directory>(Directory::of(file_name))) {
    const std::string entry(begun.name.data(), ::strnlen(begun.name.data(), begun.name.size()));
    Descriptor descriptor = directory_->open_file(entry, O_RDWR);
    struct stat status {};
    if (descriptor.get() < 0 || ::fstat(descriptor.get(), &status) != 0) {
      throw_errno(ErrorCode::kOpenFailed, fmt::format("{}, which rank 0 has made", directory_->path(entry)));
    }
    const bool is_closed_to_others = (status.st_mode & (S_IRWXG | S_IRWXO)) == 0;
    const bool is_same = status.st_ino == begun.inode && status.st_uid == begun.owner;
    if (!S_ISREG(status.st_mode) || !is_closed_to_others || !is_same) {
      throw Error(ErrorCode::kOpenFailed,
                  fmt::format("{} is not the file that rank 0 has made, or has another number (inode) or owner here",
                              directory_->path(entry)));
    }
    file_ = open_file(std::move(descriptor), directory_->path(entry), OpenMode::kModify, io_path);
    file_->expect_sync();
    removed_.emplace(directory_, entry);
  }

  File& file() { return *file_; }
  // Leaves the name to rank 0. Called before that can change it.
  void release() { removed_->release(); }

 private:
  const std::shared_ptr<const Directory> directory_;
  std::unique_ptr<File> file_;
  std::optional<TemporaryName> removed_;
};

}  // namespace

TensorRange share_of(const TensorTable& tensors, unsigned rank, unsigned size) {
  TZMARK_REQUIRES(rank < size);
  long double total = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) total += static_cast<long double>(tensors[i].data_length);
  // A tensor is of the rank in whose share its middle lies; those without bytes, of the rank of the one before.
  TensorRange share{tensors.size(), tensors.size()};
  long double before = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto bytes = static_cast<long double>(tensors[i].data_length);
    const long double middle = before + bytes / 2;
    before += bytes;
    const auto owner = total == 0 ? 0U : std::min(size - 1, static_cast<unsigned>(middle / total * size));
    if (owner == rank && share.first == tensors.size()) share.first = i;
    if (owner > rank) {
      share.end = i;
      break;
    }
  }
  share.first = std::min(share.first, share.end);
  return share;
}

WriteResult write_together(const std::string& file_name, const TensorTable& tensors, const TensorRange& own,
                           const TensorSource& source, Group& group, const WriteOptions& options) {
  TZMARK_REQUIRES(group.size() > 0 && group.rank() < group.size());
  std::optional<WritePlan> plan;
  std::vector<TensorRange> ranges;
  std::optional<MadeByFirst> made;
  std::optional<MadeByOther> opened;
  std::unique_ptr<RecordWriter> records;
  // Does a part of the work on this rank, and then waits for the others; after an error of one, none goes on.
  const auto together = [&](WriteStep step, const auto& work) {
    RankReport report{.number = static_cast<std::uint64_t>(step)};
    std::exception_ptr failed;
    try {
      work(report);
    } catch (...) {
      failed = std::current_exception();
    }
    return agree(group, report, failed);
  };

  require_same_plan(together(WriteStep::kPlanned, [&](RankReport& report) {
    plan.emplace(plan_for_group(tensors, options));
    report = report_of(*plan, options);
    ranges.resize(group.size());
  }));
  require_division(group, std::move(ranges), own, tensors.size());
  const bool is_first = group.rank() == 0;
  together(WriteStep::kCreated, [&](RankReport&) {
    if (!is_first) return;
    require_no_undo_journal(file_name);
    made.emplace(file_name, *plan, source, options);
  });
  BegunWire begun{};
  if (is_first) begun = made->begun();
  broadcast_together(group, std::as_writable_bytes(std::span(&begun, 1)), 0);
  together(WriteStep::kJoined, [&](RankReport&) {
    if (!is_first) opened.emplace(file_name, begun, options.io_path);
    File& file = is_first ? made->file() : opened->file();
    records = make_record_writer(file, file, *plan, source, options, own.first, own.end);
  });
  together(WriteStep::kPagesWritten, [&](RankReport&) { records->write_pages(); });
  together(WriteStep::kWritten, [&](RankReport&) {
    records->write_rest();
    (is_first ? made->file() : opened->file()).sync();
    if (opened) opened->release();
  });
  const std::vector<RankReport> named = together(WriteStep::kNamed, [&](RankReport& report) {
    if (is_first) report.file_bytes = made->commit(options.names_wait) ? 1 : 0;
  });
  return {plan->layout(), plan->file_bytes(), named[0].file_bytes != 0};
}

}  // namespace tzmark
