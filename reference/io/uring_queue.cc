// Keeping a ring busy: steps become entries, completions become steps or finished transfers.
#include "io/uring_queue.h"

#include <algorithm>
#include <cstring>

namespace tzmark {
namespace {

// Registered memory is counted for each slot of a queue, so that it is less here than for single calls.
constexpr std::size_t kBounceBytes = 512 << 10;
// The kernel registers no larger piece at once.
constexpr std::size_t kRegisteredBytesMax = std::size_t{1} << 30;
// A system call costs about as much as moving this much. Smaller entries gather until somebody waits.
constexpr std::size_t kWorthACallBytes = 64 << 10;
constexpr unsigned kDepthMax = 4096;

}  // namespace

UringQueue::UringQueue(AlignedFile& file, unsigned depth, Ring::Use use, const Ring* shared)
    : file_(file),
      ring_(std::clamp(depth, 1U, kDepthMax), use, shared),
      polled_(use == Ring::Use::kPolled),
      slots_(std::clamp(depth, 1U, kDepthMax)),
      ready_(slots_.size()),
      bounce_bytes_(whole_units(file.opened().alignment, kBounceBytes)) {
  for (std::size_t number = slots_.size(); number > 0; --number) free_.push_back(static_cast<unsigned>(number - 1));
  const std::array descriptors = {file_.opened().descriptor_of(Step::Route::kStraight),
                                  file_.opened().descriptor_of(Step::Route::kBuffered)};
  // Saves the kernel a look at the table of files with each entry. Without it all goes on as well.
  files_registered_ = ::io_uring_register_files(ring_.get(), descriptors.data(), descriptors.size()) == 0;
}

UringQueue::~UringQueue() {
  while (in_flight() > ready_count_) wait_for_some();
}

void UringQueue::register_memory(std::span<const MutableBuffer> buffers) {
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
  if (::io_uring_register_buffers(ring_.get(), pieces.data(), count + 1) != 0) return;
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
  const iovec all{bounce_.get(), bytes};
  if (bounce_number_ < 0) {
    if (::io_uring_register_buffers(ring_.get(), &all, 1) != 0) return;
    bounce_number_ = 0;
  } else if (::io_uring_register_buffers_update_tag(ring_.get(), static_cast<unsigned>(bounce_number_), &all, nullptr,
                                                    1) != 1) {
    return;
  }
  const Registered piece{bounce_.get(), bytes, bounce_number_};
  registered_.insert(std::ranges::upper_bound(registered_, piece.memory, {}, &Registered::memory), piece);
}

void UringQueue::start(Transfer& transfer) {
  const unsigned number = free_.back();
  free_.pop_back();
  slots_[number] = {&transfer, 0, {}};
  transfer.error = nullptr;
  try {
    require_host_memory(transfer.memory, file_.io_path());
    if (transfer.memory.size == 0) {
      finish(number);
    } else {
      begin_step(number);
    }
  } catch (...) {
    finish(number, std::current_exception());
  }
  submit_what_is_worth_it();
}

Transfer& UringQueue::wait() {
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
  }
  return ready_count_ == 0 ? nullptr : &wait();
}

void UringQueue::begin_step(unsigned number) {
  Slot& slot = slots_[number];
  const Transfer& transfer = *slot.transfer;
  const MutableBuffer rest = transfer.memory.sub(slot.done, transfer.memory.size - slot.done);
  const std::uint64_t offset = transfer.offset + slot.done;
  const Alignment& alignment = file_.opened().alignment;
  const bool reads = transfer.kind == Transfer::Kind::kRead;
  slot.step =
      reads ? read_step(alignment, offset, rest, bounce_bytes_) : write_step(alignment, offset, rest, bounce_bytes_);
  std::byte* memory = rest.data;
  if (slot.step.route == Step::Route::kBounced) {
    memory = bounce_of(number);
    if (!reads) std::memcpy(memory, rest.data, slot.step.bytes);
  }
  const int descriptor = files_registered_ ? (slot.step.route == Step::Route::kBuffered ? 1 : 0)
                                           : file_.opened().descriptor_of(slot.step.route);
  io_uring_sqe& entry = ring_.next_entry();
  fill_entry(entry, {transfer.kind, descriptor, memory, slot.step.bytes, slot.step.offset},
             registered(memory, slot.step.bytes));
  if (files_registered_) entry.flags |= IOSQE_FIXED_FILE;
  entry.user_data = number;
  unsubmitted_bytes_ += slot.step.bytes;
}

void UringQueue::end_step(unsigned number, int result) {
  const Transfer& transfer = *slots_[number].transfer;
  try {
    if (result == -EINTR || result == -EAGAIN) {
      begin_step(number);
    } else if (result < 0 || (result == 0 && transfer.kind == Transfer::Kind::kWrite)) {
      const int error_number = result == 0 ? EIO : -result;
      throw move_error(file_.io_path(), transfer.kind, error_number, transfer.offset + slots_[number].done);
    } else if (advance(number, static_cast<std::size_t>(result))) {
      begin_step(number);
    } else {
      finish(number);
    }
  } catch (...) {
    finish(number, std::current_exception());
  }
}

bool UringQueue::advance(unsigned number, std::size_t moved) {
  Slot& slot = slots_[number];
  const Transfer& transfer = *slot.transfer;
  const std::size_t useful = slot.step.useful_of(moved);
  std::byte* const rest = transfer.memory.data + slot.done;
  if (transfer.kind == Transfer::Kind::kWrite) {
    file_.grow_to(slot.step.offset + moved);
  } else if (useful == 0 && (moved == 0 || file_.ends_before(slot.step))) {
    throw early_end(transfer.memory.size - slot.done, transfer.offset + slot.done);
  } else if (slot.step.route == Step::Route::kBounced) {
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
  const unsigned unsubmitted = ring_.unsubmitted();
  const bool kernel_is_idle = in_flight() - ready_count_ == unsubmitted;
  if (unsubmitted == 0 || (!polled_ && !kernel_is_idle && unsubmitted_bytes_ < kWorthACallBytes)) return;
  ring_.submit();
  unsubmitted_bytes_ = 0;
}

void UringQueue::reap() {
  ring_.reap([this](std::uint64_t number, int result) { end_step(static_cast<unsigned>(number), result); });
}

void UringQueue::wait_for_some() {
  ring_.submit_and_wait();
  unsubmitted_bytes_ = 0;
  reap();
  submit_what_is_worth_it();
}

}  // namespace tzmark
