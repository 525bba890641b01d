// A File that delegates to another one until the call of a given number fails. For tests of error handling.
#pragma once

#include <atomic>
#include <limits>

#include "tzmark/io.h"

namespace tzmark {

class FaultyFile final : public File {
 public:
  enum class Fault {
    kNone,
    kShort,    // moves one byte only; no error, the caller has to go on
    kError,    // EIO
    kNoSpace,  // ENOSPC
    kEnd,      // read_some reports the end of the file
  };
  // Counts reads, writes and syncs together, from 0. every: the fault comes at each multiple of call, not once.
  // transfer_bytes_max: what one call moves at most.
  FaultyFile(File& inner, Fault fault, std::uint64_t call, bool every = false,
             std::size_t transfer_bytes_max = std::numeric_limits<std::size_t>::max())
      : inner_(inner), fault_(fault), call_(call), every_(every), transfer_bytes_max_(transfer_bytes_max) {}

  std::string_view io_path() const override { return inner_.io_path(); }
  std::uint64_t size() const override { return inner_.size(); }
  std::uint64_t calls() const { return next_call_; }

 protected:
  std::size_t read_some(std::uint64_t offset, MutableBuffer out) override;
  std::size_t write_some(std::uint64_t offset, ConstBuffer in) override;
  void sync_all() override;

 private:
  Fault next_fault();
  std::size_t read_up_to(std::uint64_t offset, MutableBuffer out, std::size_t bytes_max);

  File& inner_;
  Fault fault_;
  std::uint64_t call_;
  bool every_;
  std::size_t transfer_bytes_max_;
  std::atomic<std::uint64_t> next_call_ = 0;
};

}  // namespace tzmark
