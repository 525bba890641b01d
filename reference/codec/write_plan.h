// The plan of a file, or of an extension of one: layout, key, and the offsets of all headers and data. It is complete
// before the first byte of data is read.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tzmark/crypto.h"
#include "tzmark/format.h"
#include "tzmark/io.h"
#include "tzmark/writer.h"

namespace tzmark {

struct Placement {
  std::uint64_t header_offset, data_offset;
};

// The v5-segments file to which tensors are appended: the offsets where its content ends.
struct Extension {
  Segments segments;
  std::uint64_t headers_end = 0;
  std::uint64_t data_end = 0;  // including its terminator
  // Of an encrypted file with a passphrase: the same for all of its tensors.
  std::optional<KeyDerivation> key_derivation;
};

class WritePlan {
 public:
  // Keeps references to its arguments. Throws every error that is known before data is read.
  WritePlan(const TensorTable& tensors, const WriteOptions& options, const Extension* extension = nullptr);

  Layout layout() const { return layout_; }
  bool encrypted() const { return options_.encrypt.has_value(); }
  bool has_detached_data() const { return options_.detached_data; }
  const TensorTable& tensors() const { return tensors_; }
  const Placement& operator[](std::size_t i) const { return placements_[i]; }
  // The upper bound of the end of a header, and of all headers.
  std::uint64_t header_end(std::size_t i) const;
  std::uint64_t headers_end() const { return headers_end_; }
  std::uint64_t entry_bytes() const { return entry_bytes_; }  // of all index entries
  std::uint64_t data_bytes() const;                           // of all tensors
  std::uint64_t file_bytes() const;                           // including detached data
  // REQUIRES: encrypted().
  const Key& key() const { return *key_; }
  const std::optional<KeyDerivation>& key_derivation() const { return key_derivation_; }
  HeaderPlan header_plan(const TensorInfo& tensor) const;
  // Computes the offsets again, after the extension has changed.
  void place();

  // Writes everything except headers and data.
  void write_frame(File& file, File& data_file) const;
  // Write the parts of an extension: the entries at the given offset, and the terminator.
  void write_entries(File& file, std::uint64_t offset) const;
  void write_terminator(File& data_file) const;

 private:
  void choose_layout();
  void check_detached_data_option();
  void check_hashes() const;
  void check_names() const;
  void prepare_key();
  void place_records();
  void place_headers_first();
  void place_headers(std::uint64_t position);
  void place_data(std::uint64_t position);

  const TensorTable& tensors_;
  const WriteOptions& options_;
  const Extension* const extension_;
  Layout layout_ = Layout::kV1;
  std::optional<Key> key_;
  std::optional<KeyDerivation> key_derivation_;
  std::vector<Placement> placements_;
  Segments segments_;  // zeros except in v5-segments, so that offsets of other layouts are relative to the file
  std::uint64_t entry_bytes_ = 0;
  std::uint64_t index_bytes_ = 0;  // including reserved room
  std::uint64_t headers_end_ = 0;  // of the headers-first layouts
  std::uint64_t data_begin_ = 0;   // of the headers-first layouts
  std::uint64_t terminator_at_ = 0;
  std::uint64_t pair_number_ = 0;
};

}  // namespace tzmark
