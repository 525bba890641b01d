// The Reader: opening a file, finding tensors, and checking headers. scan.cc reads in bulk.
#include "tzmark/reader.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "codec/header_prefetch.h"
#include "codec/lanes.h"
#include "codec/reader_state.h"
#include "codec/undo_journal.h"
#include "format/name_elements.h"
#include "io/paths.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

// Headers that are close together are read in one transfer; the window bounds the memory for it.
constexpr std::size_t kHeaderWindowBytes = 1 << 20;
constexpr std::uint64_t kHeaderGapBytes = 32 << 10;
// Headers that are farther apart are read one by one: many at a time, where that is faster.
constexpr std::uint64_t kHeaderFarBytes = 2 * kHeaderGapBytes;

}  // namespace

ReaderState::ReaderState(std::unique_ptr<File> f, std::unique_ptr<File> d, ReadOptions o)
    : file(std::move(f)),
      data_file(std::move(d)),
      options(std::move(o)),
      keys(std::exchange(options.key, std::nullopt), options.key_derivation_limits),
      index(read_index(*file, data_file.get())) {
  pipeline_options().check();
  if (options.part_bytes == 0) options.piece_bytes = piece_bytes_for(data(), options.piece_bytes);
  // Only messages of encryption need pieces that are larger than parts.
  if (!index.header.encrypted) options.piece_bytes = run_bytes_max(options.piece_bytes, options.part_bytes);
  if (keys.has_key() && !index.header.encrypted) {
    throw Error(ErrorCode::kCryptNotEncrypted, "a key was given for a file that is not encrypted",
                offsetof(FileHeaderWire, feature_flags));
  }
}

void ReaderState::check_room(std::size_t tensor, std::size_t bytes) const {
  const TensorInfo info = index.tensors[tensor];
  const std::uint64_t nominal = *nominal_bytes(info.shape, info.dtype.item_bytes);
  if (bytes != nominal) {
    throw Error(ErrorCode::kUsage, fmt::format("a buffer of {} bytes for a tensor of {} bytes", bytes, nominal));
  }
}

Reader::Reader(std::unique_ptr<File> file, ReadOptions options)
    : Reader(std::move(file), nullptr, std::move(options)) {}
Reader::Reader(std::unique_ptr<File> file, std::unique_ptr<File> data_file, ReadOptions options)
    : state_(std::make_unique<State>(std::move(file), std::move(data_file), std::move(options))) {}
Reader::~Reader() = default;
Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;

Reader Reader::open(const std::string& file_name, ReadOptions options) {
  if (file_name == "-") return Reader(spool(STDIN_FILENO), std::move(options));
  auto file = open_file(file_name, OpenMode::kRead, options.io_path);
  return open(std::move(file), file_name, std::move(options));
}

Reader Reader::open(std::unique_ptr<File> file, const std::string& file_name, ReadOptions options) {
  require_no_undo_journal(file_name);
  std::unique_ptr<File> data_file;
  if (!options.data_file_name.empty()) {
    data_file = with_context(display_name(options.data_file_name),
                             [&] { return open_file(options.data_file_name, OpenMode::kRead, options.io_path); });
  }
  return Reader(std::move(file), std::move(data_file), std::move(options));
}

std::string_view Reader::io_path() const { return state_->file->io_path(); }
const FileHeader& Reader::header() const { return state_->index.header; }
Layout Reader::layout() const { return state_->index.layout; }
const TensorTable& Reader::tensors() const { return state_->index.tensors; }
std::uint64_t Reader::file_bytes() const {
  return state_->file->size() + (state_->data_file ? state_->data_file->size() : 0);
}
const std::optional<FileVersion>& Reader::data_file_version() const { return state_->data().version(); }

std::vector<FileVersion> Reader::files() const {
  std::vector<FileVersion> versions;
  if (const auto& head = state_->file->version()) {
    versions.push_back(*head);
    if (state_->data_file && data_file_version()) versions.push_back(*data_file_version());
  }
  return versions;
}
std::uint64_t Reader::index_begin() const { return state_->index.begin; }
std::uint64_t Reader::index_length() const { return state_->index.length; }
std::uint64_t Reader::index_used() const { return state_->index.used; }
const Segments& Reader::segments() const { return state_->index.segments; }

std::optional<std::size_t> Reader::find(std::string_view name) const {
  const TensorTable& tensors = state_->index.tensors;
  std::vector<std::uint32_t>& by_name = state_->by_name;
  const auto name_of = [&](std::uint32_t i) { return tensors[i].name; };
  std::call_once(state_->names_once, [&] {
    by_name.resize(tensors.size());
    std::iota(by_name.begin(), by_name.end(), 0U);
    std::ranges::sort(by_name, {}, name_of);
  });
  const auto found = std::ranges::lower_bound(by_name, name, {}, name_of);
  if (found == by_name.end() || name_of(*found) != name) return std::nullopt;
  return *found;
}

std::optional<std::size_t> Reader::find(const Path& path) const {
  if (path.size() == 1 && std::holds_alternative<std::string>(path.front())) {
    if (const auto found = find(std::get<std::string>(path.front()))) return found;
  }
  const auto canonical = structured_name(path);
  if (!canonical) return std::nullopt;
  if (const auto found = find(*canonical)) return found;
  // A file may serialize a path in other ways. Its names are parsed once, not by each call.
  auto& odd_names = state_->odd_names;
  std::call_once(state_->odd_names_once, [&] {
    for (std::size_t i = 0; i < tensors().size(); ++i) {
      const std::string_view name = tensors()[i].name;
      if (!name.starts_with(kStructuredNameMark)) continue;
      std::string usual = structured_name(parse_name(name)).value();
      if (usual != name) odd_names.emplace_back(std::move(usual), static_cast<std::uint32_t>(i));
    }
    std::ranges::sort(odd_names);
  });
  const auto found = std::ranges::lower_bound(odd_names, *canonical, {}, [](const auto& odd) { return odd.first; });
  if (found == odd_names.end() || found->first != *canonical) return std::nullopt;
  return found->second;
}

void Reader::check_headers(const HeaderVisitor& visit) const {
  const State& state = *state_;
  const TensorTable& tensors = state.index.tensors;
  std::vector<std::byte> window;
  std::uint64_t window_begin = 0;
  std::uint64_t window_end = 0;
  TensorHeader header;
  const auto begin_of = [&](std::size_t i) { return tensors[state.index.in_file_order(i)].header_offset; };
  // Whether no window would have the header and the one before or after it.
  const auto is_far = [&](std::size_t i) {
    return (i == 0 || begin_of(i) - begin_of(i - 1) > kHeaderFarBytes) &&
           (i + 1 == tensors.size() || begin_of(i + 1) - begin_of(i) > kHeaderFarBytes);
  };
  HeaderPrefetch far_headers(state, tensors.size(), is_far);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::size_t tensor = state.index.in_file_order(i);
    const TensorInfo info = tensors[tensor];
    const std::size_t length = header_room(state.index, tensor);
    // The room is only an upper bound on the size of a header that exceeds the window.
    if (length > kHeaderWindowBytes || is_far(i)) {
      const std::vector<std::byte> own =
          is_far(i) ? far_headers.take(i) : read_header(*state.file, state.index, tensor);
      const auto own_bytes = decode_header(state.index, tensor, own, header);
      if (visit) visit(tensor, header, own_bytes);
      continue;
    }
    if (info.header_offset + length > window_end || info.header_offset < window_begin) {
      window_begin = info.header_offset;
      window_end = window_begin + length;
      for (std::size_t k = i + 1; k < tensors.size(); ++k) {
        const std::size_t next = state.index.in_file_order(k);
        const std::uint64_t next_begin = tensors[next].header_offset;
        const std::uint64_t next_end = next_begin + header_room(state.index, next);
        if (next_end - window_begin > kHeaderWindowBytes || next_begin - window_end > kHeaderGapBytes) break;
        window_end = next_end;
      }
      window.resize(window_end - window_begin);
      state.file->read_at(window_begin, std::span(window));
    }
    const auto bytes = std::span(window).subspan(info.header_offset - window_begin, length);
    const auto own_bytes = decode_header(state.index, tensor, bytes, header);
    if (visit) visit(tensor, header, own_bytes);
  }
}

std::unique_ptr<TensorStream> Reader::open(std::size_t tensor) const {
  return std::make_unique<FileTensorStream>(*state_, tensor);
}

void Reader::verify() const { scan({.verify = Verification::kAll}); }

}  // namespace tzmark
