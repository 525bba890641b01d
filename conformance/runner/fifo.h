// A FIFO that a thread fills: a file that can be opened and read once, without seeking.
//
// Thread-safety: one object belongs to one thread, and starts one more.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <thread>

namespace tzmark::conformance {

class Fifo {
 public:
  // The first reader of path gets the content and its end; later ones wait for ever. The content must outlive the
  // object. Throws EnvironmentError if the FIFO cannot be made.
  Fifo(std::filesystem::path path, std::span<const std::byte> content);

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::jthread writer_;
};

}  // namespace tzmark::conformance
