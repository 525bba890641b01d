// The state of a Reader, and the stream of one tensor's data.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "bytes/block_tags.h"
#include "bytes/requires.h"
#include "codec/header_reading.h"
#include "codec/index.h"
#include "codec/key_ring.h"
#include "codec/pipeline.h"
#include "codec/tensor_digest.h"
#include "tzmark/reader.h"

namespace tzmark {

struct ReaderState {
  std::unique_ptr<File> file;
  std::unique_ptr<File> data_file;  // of detached data; else null
  ReadOptions options;
  mutable KeyRing keys;
  Index index;
  // For find; built by its first call.
  mutable std::once_flag names_once;
  mutable std::vector<std::uint32_t> by_name;
  // Tensors whose stored name differs from its canonical serialization, sorted by the latter.
  mutable std::once_flag odd_names_once;
  mutable std::vector<std::pair<std::string, std::uint32_t>> odd_names;

  ReaderState(std::unique_ptr<File> f, std::unique_ptr<File> d, ReadOptions o);

  // The file that contains the data.
  File& data() const { return data_file ? *data_file : *file; }
  // Throws kUsage unless the tensor occupies exactly that many bytes.
  void check_room(std::size_t tensor, std::size_t bytes) const;
  PipelineOptions pipeline_options() const {
    return {.threads = options.threads,
            .piece_bytes = options.piece_bytes,
            .part_bytes = options.part_bytes,
            .queue_depth = options.queue_depth};
  }
};

// Sorts targets as their tensors are in the file, and returns those that follow each other there.
std::vector<std::span<const ReadTarget>> runs_in_file(const ReaderState& state, std::vector<ReadTarget>& targets);

struct Reader::State final : ReaderState {
  using ReaderState::ReaderState;
};

// The plaintext of one tensor; see TensorStream.
class FileTensorStream final : public TensorStream {
 public:
  FileTensorStream(const ReaderState& state, std::size_t tensor);
  // header: what read_header returns.
  FileTensorStream(const ReaderState& state, std::size_t tensor, std::vector<std::byte> header);

  void read(std::uint64_t offset, MutableBuffer out) override;
  const ExpectedHashes* expected() const override { return &expected_; }

  const TensorHeader& header() const { return header_; }
  std::span<const std::byte> header_bytes() const { return header_bytes_; }  // exactly the header
  // The maximal length of a part that begins at offset and can be decrypted on its own. REQUIRES: offset is 0 or the
  // end of another part.
  std::size_t part_bytes(std::uint64_t offset, std::size_t limit) const;
  const std::optional<Cipher>& cipher() const { return header_.crypt.cipher; }
  // REQUIRES: cipher().
  const Key& key() const {
    TZMARK_REQUIRES(key_ != nullptr);
    return *key_;
  }
  std::uint64_t data_offset() const { return info_.data_offset; }
  std::uint64_t data_length() const { return info_.data_length; }
  // Whether a part is read from the file as it is and then decrypted.
  bool is_read_raw(std::size_t limit) const;
  // Decrypts a part, possibly in place, and checks its MACs. REQUIRES: is_read_raw().
  void decrypt(std::uint64_t offset, std::span<const std::byte> data, std::span<std::byte> plaintext) const;

 private:
  void read_messages(std::uint64_t offset, MutableBuffer out);
  void read_part(std::uint64_t offset, MutableBuffer out);
  void authenticate(std::uint64_t message);
  void open_part(std::uint64_t message, std::uint64_t in_message, std::span<std::byte> out);
  void open_blocks(std::uint64_t message, std::uint64_t in_message, std::span<std::byte> blocks);
  std::uint64_t message_length(std::uint64_t message) const;

  const ReaderState& state_;
  const TensorInfo info_;
  std::vector<std::byte> header_room_;
  TensorHeader header_;
  std::span<const std::byte> header_bytes_;
  ExpectedHashes expected_;
  const Key* key_ = nullptr;
  const std::size_t block_bytes_;
  std::optional<BlockTagger> tagger_;  // for messages that are larger than a piece
  std::mutex mutex_;
  // One tag per block of each such message's ciphertext; empty until the message is authenticated.
  std::vector<std::vector<BlockTag>> tags_;
};

[[noreturn]] void throw_wrong_mac(std::uint64_t message, std::uint64_t file_offset);

// Decrypts consecutive messages of a tensor, beginning with first_message, possibly in place. Throws TZR-CRY-016.
void open_messages(const Cipher& cipher, const Key& key, std::span<const std::byte> ciphertext,
                   std::span<std::byte> plaintext, std::uint64_t first_message, std::uint64_t data_file_offset);

}  // namespace tzmark
