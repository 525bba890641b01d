// Transfers of one thread that are in flight in a ring of its own.
//
// For the one thread that makes it. Each transfer has at most one call in the kernel: the steps of an unaligned one
// follow each other. Errors of transfers are set in them; TZE-ENV-006 is thrown for what concerns the ring as a whole.
#pragma once

#include <span>
#include <vector>

#include "io/aligned_file.h"
#include "io/ring.h"

namespace tzmark {

class UringQueue final : public TransferQueue {
 public:
  // file: outlives the queue. shared: see Ring.
  UringQueue(AlignedFile& file, unsigned depth, Ring::Use use, const Ring* shared);
  // Lets go of no memory that the kernel still uses. If it cannot wait for that, the process ends.
  ~UringQueue() override;

  unsigned depth() const override { return static_cast<unsigned>(slots_.size()); }
  unsigned in_flight() const override { return depth() - static_cast<unsigned>(free_.size()); }
  void start(Transfer& transfer) override;
  Transfer& wait() override;
  Transfer* poll() override;
  void register_memory(std::span<const MutableBuffer> buffers) override;

 private:
  // One transfer in flight.
  struct Slot {
    Transfer* transfer = nullptr;
    std::size_t done = 0;
    Step step;
  };
  // Memory that the kernel knows, sorted by address.
  struct Registered {
    const std::byte* memory = nullptr;
    std::size_t bytes = 0;
    int number = 0;
  };

  void begin_step(unsigned number);
  // The number of the registered memory that holds the range, or -1.
  int registered(const std::byte* memory, std::size_t bytes) const;
  std::byte* bounce_of(unsigned number);
  void make_bounce_memory();
  void end_step(unsigned number, int result);
  // Takes note of a call that moved bytes. Returns whether the transfer goes on.
  bool advance(unsigned number, std::size_t moved);
  void finish(unsigned number, std::exception_ptr error = nullptr);
  void submit_what_is_worth_it();
  void reap();
  void wait_for_some();

  AlignedFile& file_;
  Ring ring_;
  const bool polled_;
  bool files_registered_ = false;
  std::vector<Slot> slots_;
  std::vector<unsigned> free_;   // slots
  std::vector<unsigned> ready_;  // slots of transfers that are through, in a circle
  std::size_t ready_begin_ = 0;
  std::size_t ready_count_ = 0;
  std::size_t unsubmitted_bytes_ = 0;
  std::vector<Registered> registered_;
  int bounce_number_ = -1;  // the place among registered memory that is left for it
  AlignedMemory bounce_;    // a piece for each slot, from the first transfer on that needs one
  const std::size_t bounce_bytes_;
};

}  // namespace tzmark
