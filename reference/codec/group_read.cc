// Reading a file of tensors by a group: each rank opens it, all compare what they opened, and read it together.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "bytes/requires.h"
#include "codec/rank_report.h"
#include "codec/undo_journal.h"
#include "io/paths.h"
#include "tzmark/digest.h"
#include "tzmark/group.h"

namespace tzmark {
namespace {

using OpenOfRank = std::function<std::unique_ptr<File>(const std::string& name)>;

// Before all chunks and agreements of a GroupFile, which count on their own.
constexpr std::uint64_t kOpened = std::uint64_t{1} << 63;
constexpr std::uint64_t kDone = kOpened + 1;

// A file that this rank has opened, and what the group will read of it.
class GroupOpened {
 public:
  GroupOpened(const std::string& file_name, const OpenOfRank& open, Group& group, const GroupReadOptions& group_options,
              ReadOptions options)
      : kept_bytes_max_(group_options.memory_bytes_max) {
    require_no_undo_journal(file_name);
    auto head = std::make_unique<GroupFile>(open(file_name), group, group_options);
    head_ = head.get();
    std::unique_ptr<GroupFile> data;
    if (!options.data_file_name.empty()) {
      data = std::make_unique<GroupFile>(
          with_context(display_name(options.data_file_name), [&] { return open(options.data_file_name); }), group,
          group_options);
    }
    data_ = data ? data.get() : head_;
    reader_.emplace(std::move(head), std::move(data), std::move(options));
    plan();
  }

  const Reader& reader() const { return *reader_; }
  GroupFile& data() const { return *data_; }

  // Collective.
  void start() {
    if (headers_.begin < headers_.end) head_->keep(headers_);
    data_->start(ranges_);
  }

  RankReport report() const {
    Sha256 hash;
    hash.update(head_->opening_digest());
    hash.update(data_->opening_digest());
    return {.number = kOpened, .file_bytes = reader_->file_bytes(), .digest = hash.finish()};
  }

  bool is_group_broken() const { return head_->is_group_broken() || data_->is_group_broken(); }
  GroupReadCounts counts() const {
    GroupReadCounts counts = data_->counts();
    if (head_ == data_) return counts;
    const GroupReadCounts head = head_->counts();
    counts.storage_bytes += head.storage_bytes;
    counts.opening_bytes += head.opening_bytes;
    counts.sent_bytes += head.sent_bytes;
    counts.received_bytes += head.received_bytes;
    return counts;
  }

 private:
  // Headers that lie apart from the data are kept, if there is room for them: each is read when its tensor's turn
  // comes.
  void plan() {
    const TensorTable& tensors = reader_->tensors();
    const bool is_apart = head_ != data_ || headers_first(reader_->layout());
    std::uint64_t headers_end = head_->size();
    headers_ = {headers_end, 0};
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const TensorInfo tensor = tensors[i];
      const std::uint64_t end = tensor.data_offset + tensor.data_length;
      const FileRange data{tensor.data_offset, end};
      ranges_.push_back(is_apart ? data : FileRange{std::min(tensor.header_offset, tensor.data_offset), end});
      headers_.begin = std::min(headers_.begin, tensor.header_offset);
      if (head_ == data_ && tensor.data_length > 0) headers_end = std::min(headers_end, tensor.data_offset);
    }
    headers_.end = is_apart && headers_.begin < headers_end && headers_end - headers_.begin <= kept_bytes_max_
                       ? headers_end
                       : headers_.begin;
    std::erase_if(ranges_, [](const FileRange& r) { return r.begin == r.end; });
    std::ranges::sort(ranges_, {}, &FileRange::begin);
    // Ranges that adjoin become one. What lies between others is not read, and would keep its chunk from being dropped.
    std::size_t count = 0;
    for (const FileRange& range : ranges_) {
      if (count > 0 && range.begin <= ranges_[count - 1].end) {
        ranges_[count - 1].end = std::max(ranges_[count - 1].end, range.end);
      } else {
        ranges_[count++] = range;
      }
    }
    ranges_.resize(count);
  }

  const std::uint64_t kept_bytes_max_;
  GroupFile* head_ = nullptr;
  GroupFile* data_ = nullptr;  // the same, without detached data
  std::optional<Reader> reader_;
  FileRange headers_;
  std::vector<FileRange> ranges_;
};

// Throws on all ranks unless all have opened the same.
void require_same(const std::vector<RankReport>& reports) {
  for (unsigned rank = 1; rank < reports.size(); ++rank) {
    if (reports[rank].file_bytes != reports[0].file_bytes) {
      throw Error(ErrorCode::kFileChanged, fmt::format("the file of rank {} has {} bytes, and that of rank 0 has {}",
                                                       rank, reports[rank].file_bytes, reports[0].file_bytes));
    }
    if (reports[rank].digest != reports[0].digest) {
      throw Error(ErrorCode::kFileChanged,
                  fmt::format("the file of rank {} differs from that of rank 0: other file header or index", rank));
    }
  }
}

}  // namespace

GroupReadCounts read_together(const std::string& file_name, const OpenOfRank& open, Group& group,
                              const GroupReadOptions& group_options, ReadOptions options,
                              const std::function<void(const Reader&)>& use) {
  TZMARK_REQUIRES(group.size() > 0 && group.rank() < group.size());
  std::optional<GroupOpened> opened;
  RankReport report{.number = kOpened};
  std::exception_ptr own;
  try {
    opened.emplace(file_name, open, group, group_options, std::move(options));
    report = opened->report();
  } catch (...) {
    own = std::current_exception();
  }
  require_same(agree(group, report, own));

  opened->start();
  try {
    use(opened->reader());
  } catch (...) {
    own = std::current_exception();
  }
  opened->data().finish();
  if (!own) own = opened->data().failure();
  if (opened->is_group_broken()) std::rethrow_exception(own);
  agree(group, {.number = kDone}, own);
  return opened->counts();
}

LoadedTensors load_together(const std::string& file_name, Group& group, const GroupReadOptions& group_options,
                            ReadOptions options, Verification verify, HostMemory::Pages pages,
                            GroupReadCounts* counts) {
  std::optional<LoadedTensors> loaded;
  const std::string io_path = options.io_path;
  const GroupReadCounts counted = read_together(
      file_name, [&](const std::string& name) { return open_file(name, OpenMode::kRead, io_path); }, group,
      group_options, std::move(options), [&](const Reader& reader) { loaded.emplace(reader.load(verify, pages)); });
  if (counts != nullptr) *counts = counted;
  return std::move(*loaded);
}

}  // namespace tzmark
