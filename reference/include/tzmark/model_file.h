// Which file a model is in, and in which format: the content decides, not the name.
//
// The files of a model's repository have odd names: those of a cache have none but a digest, and those of a pipe none
// at all. Reader and SafetensorsReader read one format each; this chooses between them.
//
// Thread-safety: calls are thread-safe. Errors: TZE-ENV rules; TZE-USE-001 for a directory of several models.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tzmark/io.h"

namespace tzmark {

enum class ModelFormat : std::uint8_t { kTensors, kSafetensors };

// Returns the format of a file, or of an index of shards. If the content begins like neither format, the name decides,
// and .tensors if there is no such name: the reader of that format then says what is wrong.
ModelFormat model_format(File& file, std::string_view file_name);

struct ModelFile {
  std::string file_name;  // of the file that is open
  std::unique_ptr<File> file;
  ModelFormat format = ModelFormat::kTensors;
};

// Opens a model for reading: a file, or the only model of a directory. A directory may contain NAME.safetensors,
// NAME.safetensors.index.json with its shards, or NAME.tensors; among several, the one of the name "model" counts, as
// in transformers. "-" is a copy of standard input.
//
// Give file and file_name to Reader::open or SafetensorsReader::open.
ModelFile open_model_file(const std::string& name, std::string_view io_path = "auto");

}  // namespace tzmark
