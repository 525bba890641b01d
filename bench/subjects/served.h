// A file on a server as what is measured: the codec, raw transfers, and curl as another program for the same ranges.
//
// Every run opens its own connections, as a program that starts does, and they count. Nothing is known of the caches of
// the server, so that the first subject that reads a file warms them for all; verification does that before the clock
// starts. Errors: what open_file and Reader throw for a URL. For one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "subjects/others.h"
#include "subjects/ours.h"
#include "subjects/subject.h"

namespace tzmark::bench {

class ServedFile {
 public:
  // Sends the first request. bytes_max: raw transfers and curl read no more, from the beginning of the file. Throws
  // TZE-AVL-001 if the server cannot send parts of a file, since a copy of it would be measured.
  ServedFile(std::string url, std::uint64_t bytes_max);

  const std::string& url() const { return url_; }
  std::uint64_t file_bytes() const { return file_bytes_; }
  // What raw transfers and curl read.
  std::uint64_t bytes() const { return bytes_; }
  // Its tensors, named by the last part of the URL; without any if it is no .tensors file that can be read, for the
  // reason why_not_read.
  const Workload& workload() const { return workload_; }
  const std::string& why_not_read() const { return why_not_read_; }
  Layout layout() const { return layout_; }

  // Opens it for a run. Throws TZE-ENV-005 if its size is not what it was.
  std::unique_ptr<File> open() const;
  // Throws TZE-ENV-005 if these are not the bytes that one thread reads in order. The first call reads them.
  void require_same(std::span<const std::byte> bytes);

 private:
  using Digest = std::array<unsigned char, 32>;

  void read_index();

  const std::string url_;
  std::uint64_t file_bytes_ = 0, bytes_ = 0;
  Workload workload_;
  std::string why_not_read_;
  Layout layout_ = Layout::kV4;
  std::optional<Digest> digest_;
};

using SharedFile = std::shared_ptr<ServedFile>;

// Opens the file and loads every tensor into new memory. moving.io is ignored, as the URL says which path it is.
std::unique_ptr<Subject> served_load(SharedFile file, const IoSettings& moving, Verification verification);
// Opens the file and reads ranges of moving.block_bytes, into new memory or a sink.
std::unique_ptr<Subject> served_raw(SharedFile file, const IoSettings& moving, Target target);
// Runs curl --parallel for the same ranges, with at most moving.queue_depth at a time, and throws their bytes away. The
// time is that of the process, less that of one which reads an empty file, since a start of curl is not the server's.
// Signed requests are left out: TZE-AVL-001 for an s3 URL, and so are more than 300 at a time.
std::unique_ptr<Subject> served_curl(SharedFile file, const IoSettings& moving);

// Another program that opens the file by its URL and loads all of it: tensorizer, or tzmark's own module in Python.
// Throws TZE-AVL-001 for an s3 URL, since each program has settings of its own for that.
std::unique_ptr<Subject> served_peer(SharedFile file, std::shared_ptr<RunningPeer> peer, bool verify);
// One that is not installed: its verification throws TZE-AVL-001 with the reason.
std::unique_ptr<Subject> missing_served_peer(SharedFile file, std::string_view name, std::string why);

// The configuration that curl reads from its standard input, where no other process sees the URL. Bytes of the URL that
// end a line or a quotation are escaped.
std::string curl_configuration(const std::string& url, std::uint64_t bytes, std::uint64_t block_bytes, unsigned depth);
// Throws TZE-ENV-002 if the lines that curl has written, each a status and a size, are not those of the ranges.
void check_curl_output(const std::string& output, std::uint64_t bytes, std::uint64_t block_bytes);

}  // namespace tzmark::bench
