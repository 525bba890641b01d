// The input of convert and append: a .tensors or a safetensors file, as tensors for a writer.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "tzmark/reader.h"
#include "tzmark/table.h"

namespace tzmark::cli {

// Its streams throw FileErrors, which name the input even if the writer reads them.
class InputSource final : public TensorSource {
 public:
  explicit InputSource(const InputOptions& options);

  const TensorTable& table() const { return table_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }  // of safetensors
  // Of the index of a sharded model; part of metadata(), too.
  const std::map<std::string, std::string>& index_metadata() const { return index_metadata_; }
  // Throws kUsage if metadata() cannot hold all values; see require_one_metadata.
  void require_one_metadata(const std::map<std::string, std::string>& settled, std::string_view advice) const;
  std::uint64_t file_bytes() const { return file_bytes_; }
  const std::string& file_name() const { return input_.file_name; }
  bool is_safetensors() const { return input_.safetensors.has_value(); }
  std::unique_ptr<TensorStream> open(std::size_t tensor) const override;
  std::vector<FileVersion> files() const override;

 private:
  OpenInput input_;
  TensorTable table_;
  std::map<std::string, std::string> metadata_, index_metadata_;
  std::uint64_t file_bytes_ = 0;
};

// How to convert metadata that a .tensors file cannot hold.
inline constexpr std::string_view kDropMetadataAdvice = "--drop-metadata leaves it out";

// Hash mismatches are errors of the input although the writer finds them. All other Errors of a writer are errors of
// the output, since the input throws FileErrors.
bool is_hash_mismatch(const Error& error);

template <typename Action>
auto with_file_names(const std::string& output_name, const std::string& input_name, Action&& action) {
  try {
    return action();
  } catch (const Error& error) {
    throw FileError{is_hash_mismatch(error) ? input_name : output_name, error};
  }
}

}  // namespace tzmark::cli
