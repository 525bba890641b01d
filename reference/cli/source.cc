// Opening an input of either format.
#include "cli/source.h"

#include <algorithm>

#include "tzmark/safetensors.h"
#include "tzmark/writer.h"

namespace tzmark::cli {
namespace {

class NamingStream final : public TensorStream {
 public:
  NamingStream(const std::string& file_name, std::unique_ptr<TensorStream> stream)
      : file_name_(file_name), stream_(std::move(stream)) {}
  void read(std::uint64_t offset, MutableBuffer out) override {
    with_file_name(file_name_, [&] { stream_->read(offset, out); });
  }
  const ExpectedHashes* expected() const override { return stream_->expected(); }

 private:
  const std::string& file_name_;
  std::unique_ptr<TensorStream> stream_;
};

OpenInput open_for_streams(const InputOptions& options) {
  ReadOptions reading = with_file_name(options.file_name, [&] { return options.read_options(); });
  // Streams serve parts of any size: a long message is then authenticated once, and not decrypted for each part.
  if (reading.part_bytes != 0) reading.piece_bytes = std::min(reading.piece_bytes, reading.part_bytes);
  return options.open(std::move(reading));
}

}  // namespace

InputSource::InputSource(const InputOptions& options) : input_(open_for_streams(options)) {
  with_file_name(file_name(), [&] {
    if (input_.safetensors) {
      table_ = input_.safetensors->tensor_table();
      metadata_ = input_.safetensors->metadata();
      index_metadata_ = input_.safetensors->index_metadata();
      metadata_.insert(index_metadata_.begin(), index_metadata_.end());
      file_bytes_ = input_.safetensors->file_bytes();
    } else {
      table_ = writable_table(*input_.tensors);
      file_bytes_ = input_.tensors->file_bytes();
    }
  });
}

std::unique_ptr<TensorStream> InputSource::open(std::size_t tensor) const {
  return with_file_name(file_name(), [&]() -> std::unique_ptr<TensorStream> {
    auto stream = input_.safetensors ? input_.safetensors->open(tensor) : input_.tensors->open(tensor);
    return std::make_unique<NamingStream>(file_name(), std::move(stream));
  });
}

std::vector<FileVersion> InputSource::files() const {
  return input_.safetensors ? input_.safetensors->files() : input_.tensors->files();
}

void InputSource::require_one_metadata(const std::map<std::string, std::string>& settled,
                                       std::string_view advice) const {
  if (!input_.safetensors) return;
  with_file_name(file_name(), [&] { tzmark::require_one_metadata(*input_.safetensors, settled, advice); });
}

bool is_hash_mismatch(const Error& error) {
  return error.code() == ErrorCode::kHashNone || error.code() == ErrorCode::kHashCrc32 ||
         error.code() == ErrorCode::kHashSha256;
}

}  // namespace tzmark::cli
