// The content of a file, mapped into memory.
//
// Thread-safety: one object may be read by several threads.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace tzmark::conformance {

class FileContent {
 public:
  // Throws EnvironmentError if the file cannot be opened or mapped. Nobody may shorten it while the object lives.
  explicit FileContent(const std::filesystem::path& file);
  ~FileContent();
  FileContent(FileContent&& other) noexcept;
  FileContent(const FileContent&) = delete;
  FileContent& operator=(const FileContent&) = delete;
  FileContent& operator=(FileContent&&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_bytes_}; }

 private:
  const std::byte* data_ = nullptr;  // nullptr for an empty file
  std::size_t size_bytes_ = 0;
};

}  // namespace tzmark::conformance
