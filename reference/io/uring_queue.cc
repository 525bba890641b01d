// Turns transfers into steps, steps into ring entries, and completions into further steps or completed transfers.
#include "io/uring_queue.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "bytes/requires.h"

namespace tzmark {
namespace {

// Smaller than for single calls, since each slot of a queue has a registered bounce buffer.
constexpr std::size_t kBounceBytes = 512 << 10;
// The kernel registers at most this much at once.
constexpr std::size_t kRegisteredBytesMax = std::size_t{1} << 30;
// A system call costs about as much as copying this much, so smaller entries are submitted together.
constexpr std::size_t kWorthACallBytes = 64 << 10;
constexpr unsigned kDepthMax = 4096;

}  // namespace

unsigned UringQueue::possible_depth(unsigned wish) { return std::clamp(wish, 1U, kDepthMax); }

UringQueue::UringQueue(AlignedFile& file, unsigned depth, std::unique_ptr<Ring> ring)
    : file_(file),
      slots_(depth),
      ready_(slots_.size()),
      bounce_bytes_(whole_units(file.opened().alignment, kBounceBytes)),
      ring_(std::move(ring)) {
  for (std::size_t number = slots_.size(); number > 0; --number) free_.push_back(static_cast<unsigned>(number - 1));
  if (!ring_) return;
  const std::array descriptors = {file_.opened().descriptor_of(AlignedStep::Route::kStraight),
                                  file_.opened().descriptor_of(AlignedStep::Route::kBuffered)};
  // Saves the kernel a look at the table of files with each entry. Without it all goes on as well.
  files_registered_ = ::io_uring_register_files(ring_->get(), descriptors.data(), descriptors.size()) == 0;
}

UringQueue::~UringQueue() {
  while (in_flight() > ready_count_) wait_for_some();
  end_ring();
}

void UringQueue::end_ring() {
  // The kernel takes a ring apart some time after its end, and would keep the file and its storage until then.
  if (std::exchange(files_registered_, false)) static_cast<void>(::io_uring_unregister_files(ring_->get()));
  ring_.reset();
}

void UringQueue::register_memory(std::span<const MutableBuffer> buffers) {
  if (!ring_) return;
  std::vector<iovec> pieces;
  for (const MutableBuffer& buffer : buffers) {
    if (buffer.kind == MemoryKind::kDevice) continue;
    for (std::size_t begin = 0; begin < buffer.size; begin += kRegisteredBytesMax) {
      pieces.push_back({buffer.data + begin, std::min(kRegisteredBytesMax, buffer.size - begin)});
    }
  }
  // An empty place for bounce memory, which may never be needed.
  const auto count = static_cast<unsigned>(pieces.size());
  pieces.push_back({nullptr, 0});
  // Refused mostly by the limit of locked memory (ulimit -l).
  if (::io_uring_register_buffers(ring_->get(), pieces.data(), count + 1) != 0) return;
  bounce_number_ = static_cast<int>(count);
  for (unsigned i = 0; i < count; ++i) {
    registered_.push_back({static_cast<const std::byte*>(pieces[i].iov_base), pieces[i].iov_len, static_cast<int>(i)});
  }
  std::ranges::sort(registered_, {}, &Registered::memory);
}

int UringQueue::registered(const std::byte* memory, std::size_t bytes) const {
  auto after = std::ranges::upper_bound(registered_, memory, {}, &Registered::memory);
  if (after == registered_.begin()) return -1;
  const Registered& piece = *--after;
  const auto offset = static_cast<std::size_t>(memory - piece.memory);
  return offset <= piece.bytes && bytes <= piece.bytes - offset ? piece.number : -1;
}

std::byte* UringQueue::bounce_of(unsigned number) {
  if (!bounce_) make_bounce_memory();
  return bounce_.get() + number * bounce_bytes_;
}

void UringQueue::make_bounce_memory() {
  const std::size_t bytes = slots_.size() * bounce_bytes_;
  bounce_ = allocate_aligned(file_.opened().alignment, bytes);
  if (!ring_) return;
  const iovec all{bounce_.get(), bytes};
  if (bounce_number_ < 0) {
    if (::io_uring_register_buffers(ring_->get(), &all, 1) != 0) return;
    bounce_number_ = 0;
  } else if (::io_uring_register_buffers_update_tag(ring_->get(), static_cast<unsigned>(bounce_number_), &all, nullptr,
                                                    1) != 1) {
    return;
  }
  const Registered piece{bounce_.get(), bytes, bounce_number_};
  registered_.insert(std::ranges::upper_bound(registered_, piece.memory, {}, &Registered::memory), piece);
}

void UringQueue::start(Transfer& transfer) {
  TZMARK_REQUIRES(in_flight() < depth());
  const unsigned number = free_.back();
  free_.pop_back();
  slots_[number] = {.transfer = &transfer};
  transfer.error = nullptr;
  attempt(number, [&] {
    require_host_memory(transfer.memory, file_.io_path());
    if (transfer.memory.size == 0) {
      finish(number);
    } else {
      go_on(number);
    }
  });
  submit_what_is_worth_it();
  leave_broken_ring();
}

Transfer& UringQueue::wait() {
  TZMARK_REQUIRES(in_flight() > 0);
  while (ready_count_ == 0) wait_for_some();
  const unsigned number = ready_[ready_begin_];
  ready_begin_ = (ready_begin_ + 1) % ready_.size();
  --ready_count_;
  free_.push_back(number);
  return *slots_[number].transfer;
}

Transfer* UringQueue::poll() {
  if (ready_count_ == 0 && in_flight() > 0) {
    reap();
    submit_what_is_worth_it();
    leave_broken_ring();
  }
  return ready_count_ == 0 ? nullptr : &wait();
}

template <typename Action>
void UringQueue::attempt(unsigned number, Action&& action) {
  try {
    action();
  } catch (...) {
    finish(number, std::current_exception());
  }
}

void UringQueue::go_on(unsigned number) {
  for (;;) {
    const RingCall call = next_call(number);
    if (hand_to_ring(number, call)) return;
    if (!advance(number, move_in_place(call))) return finish(number);
  }
}

RingCall UringQueue::next_call(unsigned number) {
  Slot& slot = slots_[number];
  const Transfer& transfer = *slot.transfer;
  const MutableBuffer rest = transfer.memory.sub(slot.done, transfer.memory.size - slot.done);
  const std::uint64_t offset = transfer.offset + slot.done;
  const Alignment& alignment = file_.opened().alignment;
  const bool reads = transfer.kind == Transfer::Kind::kRead;
  slot.step = reads ? read_step_with_room(alignment, offset, rest, transfer.spare_bytes, bounce_bytes_)
                    : write_step(alignment, offset, rest, bounce_bytes_);
  std::byte* memory = rest.data;
  if (slot.step.route == AlignedStep::Route::kBounced) {
    memory = bounce_of(number);
    if (!reads) std::memcpy(memory, rest.data, slot.step.bytes);
  }
  return {transfer.kind, file_.opened().descriptor_of(slot.step.route), memory, slot.step.bytes, slot.step.offset};
}

bool UringQueue::hand_to_ring(unsigned number, const RingCall& call) {
  Slot& slot = slots_[number];
  io_uring_sqe* const entry = ring_ && slot.refusals < kRingAttempts ? ring_->next_entry() : nullptr;
  if (entry == nullptr) return false;
  fill_entry(*entry, call, registered(call.memory, call.bytes));
  if (files_registered_) {
    entry->fd = slot.step.route == AlignedStep::Route::kBuffered ? 1 : 0;
    entry->flags |= IOSQE_FIXED_FILE;
  }
  entry->user_data = number;
  unsubmitted_bytes_ += call.bytes;
  slot.is_in_ring = true;
  return true;
}

void UringQueue::end_call(unsigned number, int result) {
  Slot& slot = slots_[number];
  slot.is_in_ring = false;
  attempt(number, [&] {
    const bool refused = is_refusal(result);
    if (refused) ++slot.refusals;
    if (refused || advance(number, result)) {
      go_on(number);
    } else {
      finish(number);
    }
  });
}

bool UringQueue::advance(unsigned number, int result) {
  Slot& slot = slots_[number];
  const Transfer& transfer = *slot.transfer;
  // The kernel does not report an empty write as an error, but it would cause an endless loop here.
  if (result < 0 || (result == 0 && transfer.kind == Transfer::Kind::kWrite)) {
    throw move_error(file_.io_path(), transfer.kind, result == 0 ? EIO : -result, transfer.offset + slot.done);
  }
  const bool reads = transfer.kind == Transfer::Kind::kRead;
  const auto moved =
      reads ? bytes_still_there(file_.opened().buffered.get(), slot.step.offset, static_cast<std::size_t>(result))
            : static_cast<std::size_t>(result);
  const std::size_t useful = slot.step.useful_of(moved);
  std::byte* const rest = transfer.memory.data + slot.done;
  if (!reads) {
    file_.grow_to(slot.step.offset + moved);
  } else if (useful == 0 && (moved == 0 || file_.ends_before(slot.step))) {
    throw early_end(transfer.memory.size - slot.done, transfer.offset + slot.done);
  } else if (slot.step.route == AlignedStep::Route::kBounced) {
    std::memcpy(rest, bounce_of(number) + slot.step.skip, useful);
  }
  slot.done += useful;
  return slot.done < transfer.memory.size;
}

void UringQueue::finish(unsigned number, std::exception_ptr error) {
  slots_[number].transfer->error = std::move(error);
  ready_[(ready_begin_ + ready_count_) % ready_.size()] = number;
  ++ready_count_;
}

void UringQueue::submit_what_is_worth_it() {
  if (!ring_) return;
  const unsigned unsubmitted = ring_->unsubmitted();
  const bool kernel_is_idle = in_flight() - ready_count_ == unsubmitted;
  if (unsubmitted == 0 || (!ring_->is_polled() && !kernel_is_idle && unsubmitted_bytes_ < kWorthACallBytes)) return;
  ring_->submit();
  unsubmitted_bytes_ = 0;
}

void UringQueue::reap() {
  if (!ring_) return;
  ring_->reap([this](std::uint64_t number, int result) { end_call(static_cast<unsigned>(number), result); });
}

void UringQueue::wait_for_some() {
  // Without a ring, every transfer in flight is ready.
  ring_->submit_and_wait();
  unsubmitted_bytes_ = 0;
  reap();
  submit_what_is_worth_it();
  leave_broken_ring();
}

void UringQueue::leave_broken_ring() {
  if (!ring_ || !ring_->is_broken()) return;
  ring_->drain([this](std::uint64_t number, int result) { end_call(static_cast<unsigned>(number), result); });
  end_ring();
  // These were never submitted.
  for (unsigned number = 0; number < slots_.size(); ++number) {
    if (!std::exchange(slots_[number].is_in_ring, false)) continue;
    attempt(number, [&] { go_on(number); });
  }
}

}  // namespace tzmark
