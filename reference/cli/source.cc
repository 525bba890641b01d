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

}  // namespace

InputSource::InputSource(const InputOptions& options) : file_name_(options.file_name) {
  with_file_name(file_name_, [&] {
    if (options.is_safetensors()) {
      auto reader = std::make_unique<SafetensorsReader>(options.open_safetensors());
      table_ = reader->tensor_table();
      metadata_ = reader->metadata();
      file_bytes_ = reader->file_bytes();
      source_ = std::move(reader);
    } else {
      ReadOptions reading = options.read_options();
      // Its streams serve parts of any size: a long message is then authenticated once, and not decrypted for each
      // part.
      if (reading.part_bytes != 0) reading.piece_bytes = std::min(reading.piece_bytes, reading.part_bytes);
      auto reader = std::make_unique<Reader>(Reader::open(file_name_, std::move(reading)));
      table_ = writable_table(*reader);
      file_bytes_ = reader->file_bytes();
      source_ = std::move(reader);
    }
  });
}

std::unique_ptr<TensorStream> InputSource::open(std::size_t tensor) const {
  return with_file_name(file_name_, [&]() -> std::unique_ptr<TensorStream> {
    return std::make_unique<NamingStream>(file_name_, source_->open(tensor));
  });
}

bool is_hash_mismatch(const Error& error) {
  return error.code() == ErrorCode::kHashNone || error.code() == ErrorCode::kHashCrc32 ||
         error.code() == ErrorCode::kHashSha256;
}

}  // namespace tzmark::cli
