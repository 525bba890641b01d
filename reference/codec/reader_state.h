// What a Reader holds, and how its parts read tensor headers and data. Private to the codec.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "bytes/block_tags.h"
#include "codec/header_reading.h"
#include "codec/index.h"
#include "codec/key_ring.h"
#include "codec/pipeline.h"
#include "codec/tensor_digest.h"
#include "tzmark/reader.h"

namespace tzmark {

struct Reader::State {
  std::unique_ptr<File> file;
  std::unique_ptr<File> data_file;  // of a split pair; else null
  ReadOptions options;
  mutable KeyRing keys;
  Index index;
  // For find, built when it is first asked for.
  mutable std::once_flag names_once;
  mutable std::vector<std::uint32_t> by_name;
  // Tensors whose stored name is not the one that a writer would give them, sorted by that one.
  mutable std::once_flag odd_names_once;
  mutable std::vector<std::pair<std::string, std::uint32_t>> odd_names;

  State(std::unique_ptr<File> f, std::unique_ptr<File> d, ReadOptions o);

  // Where the data is.
  File& data() const { return data_file ? *data_file : *file; }
  // Throws kUsage if memory of that size is not what a tensor takes.
  void check_room(std::size_t tensor, std::size_t bytes) const;
  // Which tensor of the file it is, counted in the order in which they lie there.
  std::size_t place_in_file(std::size_t tensor) const;
  PipelineOptions pipeline_options() const {
    return {.threads = options.threads, .piece_bytes = options.piece_bytes, .queue_depth = options.queue_depth};
  }
  // Takes about that much through a job's pieces.
  template <typename Job>
  void run(Job& job, std::uint64_t work_bytes) const {
    Pipeline(job, pipeline_options(), work_bytes, &data()).run();
  }
};

// One tensor's data as plaintext. See TensorStream.
class FileTensorStream final : public TensorStream {
 public:
  FileTensorStream(const Reader::State& state, std::size_t tensor);

  void read(std::uint64_t offset, MutableBuffer out) override;
  const ExpectedHashes* expected() const override { return &expected_; }

  const TensorHeader& header() const { return header_; }
  std::span<const std::byte> header_bytes() const { return header_bytes_; }  // exactly the header
  // How long a part of the data that begins at offset is at most, so that it is opened from its own bytes. REQUIRES:
  // offset is 0 or where another part ends.
  std::size_t part_bytes(std::uint64_t offset, std::size_t limit) const;
  const std::optional<Cipher>& cipher() const { return header_.crypt.cipher; }
  const Key& key() const { return *key_; }  // REQUIRES: cipher()
  std::uint64_t data_offset() const { return info_.data_offset; }
  // Whether such parts are read as they lie in the file and then decrypted in place.
  bool is_read_raw(std::size_t limit) const;
  // From the bytes of the file to plaintext, which may be in their place. REQUIRES: a part, is_read_raw. Checks MACs.
  void decrypt(std::uint64_t offset, std::span<const std::byte> data, std::span<std::byte> plaintext) const;

 private:
  void read_messages(std::uint64_t offset, MutableBuffer out);
  void read_part(std::uint64_t offset, MutableBuffer out);
  void authenticate(std::uint64_t message);
  void open_part(std::uint64_t message, std::uint64_t in_message, std::span<std::byte> out);
  void open_blocks(std::uint64_t message, std::uint64_t in_message, std::span<std::byte> blocks);
  std::uint64_t message_length(std::uint64_t message) const;

  const Reader::State& state_;
  const TensorInfo info_;
  std::vector<std::byte> header_room_;
  TensorHeader header_;
  std::span<const std::byte> header_bytes_;
  ExpectedHashes expected_;
  const Key* key_ = nullptr;
  const std::size_t block_bytes_;
  std::optional<BlockTagger> tagger_;  // of messages that are larger than a piece
  std::mutex mutex_;
  // Of the ciphertext of each such message, by blocks; none before it is authenticated.
  std::vector<std::vector<BlockTag>> tags_;
};

[[noreturn]] void throw_wrong_mac(std::uint64_t message, std::uint64_t file_offset);

// Opens messages of a tensor, the first one being first_message, into plaintext, which may be in their place.
void open_messages(const Cipher& cipher, const Key& key, std::span<const std::byte> ciphertext,
                   std::span<std::byte> plaintext, std::uint64_t first_message, std::uint64_t data_file_offset);

}  // namespace tzmark
