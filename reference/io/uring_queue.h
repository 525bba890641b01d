// Transfers of one thread that are in flight in a ring of its own.
//
// For the one thread that makes it. Each transfer has at most one call in the kernel: the steps of an unaligned one
// follow each other. Errors of transfers are set in them. What the ring refuses, and all that is left when it breaks,
// is moved in place.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "io/aligned_file.h"
#include "io/ring.h"

namespace tzmark {

class UringQueue final : public TransferQueue {
 public:
  // file: outlives the queue. depth: a possible one. ring: with as many entries; none, if the system is short of them.
  UringQueue(AlignedFile& file, unsigned depth, std::unique_ptr<Ring> ring);
  // Lets go of no memory that the kernel still uses; see Ring::drain.
  ~UringQueue() override;

  // The depth that is next to the wish.
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
    Step step{};
    unsigned refusals = 0;    // of its calls, by the ring
    bool is_in_ring = false;  // its call
  };
  // Memory that the kernel knows, sorted by address.
  struct Registered {
    const std::byte* memory = nullptr;
    std::size_t bytes = 0;
    int number = 0;
  };

  // Hands the next call to the ring, or makes calls in place until the transfer is through. Throws its error.
  void go_on(unsigned number);
  RingCall next_call(unsigned number);
  bool hand_to_ring(unsigned number, const RingCall& call);
  // The number of the registered memory that holds the range, or -1.
  int registered(const std::byte* memory, std::size_t bytes) const;
  std::byte* bounce_of(unsigned number);
  void make_bounce_memory();
  // Does what a transfer needs next; what that throws is the transfer's error.
  template <typename Action>
  void attempt(unsigned number, Action&& action);
  void end_call(unsigned number, int result);
  // Takes note of a call's result, and returns whether the transfer goes on. Throws its error.
  bool advance(unsigned number, int result);
  void finish(unsigned number, std::exception_ptr error = nullptr);
  void submit_what_is_worth_it();
  void reap();
  void wait_for_some();
  void leave_broken_ring();

  AlignedFile& file_;
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
  std::unique_ptr<Ring>
      ring_;  // none, or one that was not broken; the last member, so that it is gone before memory is
};

}  // namespace tzmark
