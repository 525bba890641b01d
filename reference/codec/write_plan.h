// Everything about a file, or about what is added to one, that is known before its data is: layout, key, and where
// each header and each tensor's data goes.
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

// A v5-segments file that tensors are added to: where what it has ends, in bytes of the file.
struct Extension {
  Segments segments;
  std::uint64_t headers_end = 0;
  std::uint64_t data_end = 0;  // its terminator included
  // Of an encrypted file with a passphrase: all of its tensors have the same.
  std::optional<KeyDerivation> key_derivation;
};

class WritePlan {
 public:
  // Keeps references to its arguments. Throws for everything that can be known to fail.
  WritePlan(const TensorTable& tensors, const WriteOptions& options, const Extension* extension = nullptr);

  Layout layout() const { return layout_; }
  bool encrypted() const { return options_.encrypt.has_value(); }
  bool has_detached_data() const { return options_.detached_data; }
  const TensorTable& tensors() const { return tensors_; }
  const Placement& operator[](std::size_t i) const { return placements_[i]; }
  // Where the header of a tensor ends at the latest, and where all do.
  std::uint64_t header_end(std::size_t i) const;
  std::uint64_t headers_end() const { return headers_end_; }
  std::uint64_t entry_bytes() const { return entry_bytes_; }  // of all index entries
  std::uint64_t data_bytes() const;                           // of all tensors
  std::uint64_t file_bytes() const;                           // of both files of a split pair
  const Key& key() const { return key_; }
  const std::optional<KeyDerivation>& key_derivation() const { return key_derivation_; }
  HeaderPlan header_plan(const TensorInfo& tensor) const;
  // Once more, when the extension has changed under the plan.
  void place();

  // Everything but headers and data.
  void write_frame(File& file, File& data_file) const;
  // Of an extension: the entries at the given place, and the terminator.
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
  Key key_;
  std::optional<KeyDerivation> key_derivation_;
  std::vector<Placement> placements_;
  Segments segments_;  // zeros but in v5-segments, so that offsets of the other layouts are relative to the file
  std::uint64_t entry_bytes_ = 0;
  std::uint64_t index_bytes_ = 0;  // with the room that was asked for
  std::uint64_t headers_end_ = 0;  // of the headers-first layouts
  std::uint64_t data_begin_ = 0;   // of the headers-first layouts
  std::uint64_t terminator_at_ = 0;
  std::uint64_t pair_number_ = 0;
};

}  // namespace tzmark
