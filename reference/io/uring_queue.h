// The transfers that one thread has in flight in its own ring.
//
// Only for the thread that creates it. Each transfer has at most one call in the kernel: the steps of an unaligned
// transfer follow each other. Calls that the ring refuses, and all that remain when it breaks, use pread and pwrite.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "io/aligned_file.h"
#include "io/ring.h"

namespace tzmark {

class UringQueue final : public TransferQueue {
 public:
  // file: must outlive the queue. depth: from possible_depth. ring: with as many entries; null if the system refused
  // one.
  UringQueue(AlignedFile& file, unsigned depth, std::unique_ptr<Ring> ring);
  // Releases no memory that the kernel still uses; see Ring::drain.
  ~UringQueue() override;

  // The supported depth that is closest to the wish.
  static unsigned possible_depth(unsigned wish);

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
    AlignedStep step{};
    unsigned refusals = 0;    // by the ring
    bool is_in_ring = false;  // whether its call is
  };
  // Registered memory, sorted by address.
  struct Registered {
    const std::byte* memory = nullptr;
    std::size_t bytes = 0;
    int number = 0;
  };

  // Adds the next call to the ring, or makes calls in place until the transfer completes. Throws its error.
  void go_on(unsigned number);
  RingCall next_call(unsigned number);
  bool hand_to_ring(unsigned number, const RingCall& call);
  // The number of the registered memory that contains the range, or -1.
  int registered(const std::byte* memory, std::size_t bytes) const;
  std::byte* bounce_of(unsigned number);
  void make_bounce_memory();
  // Runs action; what it throws becomes the transfer's error.
  template <typename Action>
  void attempt(unsigned number, Action&& action);
  void end_call(unsigned number, int result);
  // Records a call's result, and returns whether the transfer continues. Throws its error.
  bool advance(unsigned number, int result);
  void finish(unsigned number, std::exception_ptr error = nullptr);
  void submit_what_is_worth_it();
  void reap();
  void wait_for_some();
  void leave_broken_ring();
  void end_ring();

  AlignedFile& file_;
  bool files_registered_ = false;
  std::vector<Slot> slots_;
  std::vector<unsigned> free_;   // slots
  std::vector<unsigned> ready_;  // slots of completed transfers; a ring buffer
  std::size_t ready_begin_ = 0;
  std::size_t ready_count_ = 0;
  std::size_t unsubmitted_bytes_ = 0;
  std::vector<Registered> registered_;
  int bounce_number_ = -1;  // the registration slot reserved for the bounce buffer
  AlignedMemory bounce_;    // a piece for each slot, from the first transfer on that needs one
  const std::size_t bounce_bytes_;
  std::unique_ptr<Ring>
      ring_;  // none, or one that was not broken; the last member, so that it is gone before memory is
};

}  // namespace tzmark
