// How pieces move on.
#include "codec/pipeline_state.h"

#include <limits>
#include <tuple>
#include <utility>

#include "bytes/requires.h"

namespace tzmark {

void PipelineState::fail(Slot& s, std::exception_ptr why, std::size_t transfer) {
  s.failed = true;
  fail_at(s.position, std::move(why), transfer);
}

void PipelineState::fail_at(Position position, std::exception_ptr why, std::size_t transfer) {
  if (error && !(std::tie(position, transfer) < std::tie(error_position, error_transfer))) return;
  error = std::move(why);
  error_position = position;
  error_transfer = transfer;
}

void PipelineState::occupy(Slot& s, const PipelinePiece& piece) {
  TZMARK_REQUIRES(s.state == SlotState::kFree && piece.streams <= std::numeric_limits<std::uint32_t>::max());
  s = {.position = piece.position,
       .chain = piece.chain,
       .in_chain = piece.in_chain,
       .streams = static_cast<std::uint32_t>(piece.streams),
       .state = SlotState::kReading,
       .is_critical = piece.is_critical,
       .chains_late = piece.chains_late};
  ++used;
  used_streams += s.streams;
}

// As if the piece had a transfer in flight.
void PipelineState::lead(Slot& s, const void* queue) {
  s.queue = queue;
  s.is_led = true;
  ++s.pending;
  ++led;
}

void PipelineState::come_to(Slot& s) {
  s.is_led = false;
  --s.pending;
  --led;
}

void PipelineState::release(Slot& s) {
  if (s.is_led) --led;
  used_streams -= s.streams;
  --used;
  s = {};
  if (on_release) on_release(static_cast<std::size_t>(&s - slots.data()));
}

void PipelineState::release_dropped() {
  if (!error) return;
  for (Slot& s : slots) {
    if (s.state == SlotState::kFree || s.state == SlotState::kComputing || s.state == SlotState::kLent) continue;
    if (s.pending > 0 || s.chaining) continue;
    if (is_dropped(s)) release(s);
  }
}

void PipelineState::finish_move(Slot& s) {
  if (s.pending > 0 || (s.next_transfer < s.transfer_count && !s.failed)) return;
  s.transfer_count = s.next_transfer = 0;
  if (s.state == SlotState::kReading) {
    s.state = SlotState::kRead;
  } else if (s.state == SlotState::kWriting) {
    s.state = SlotState::kWritten;
    if (s.chained || s.streams == 0) release(s);
  }
}

void PipelineState::finish_chain(Slot& s, std::exception_ptr why) {
  s.chaining = false;
  s.chained = true;
  if (s.chain != nullptr) ++s.chain->next;
  if (why) fail(s, std::move(why));
  if (!s.chains_late) s.state = SlotState::kChained;
  if (s.state == SlotState::kWritten) release(s);
}

void PipelineState::begin_loss(const void* queue, const void* mark) {
  for (Slot& s : slots) {
    if (s.queue != queue || (s.pending == 0 && s.next_transfer == s.transfer_count)) continue;
    s.failed = true;
    s.queue = mark;
  }
}

void PipelineState::end_loss(const void* mark) {
  for (Slot& s : slots) {
    if (s.queue != mark) continue;
    s.queue = nullptr;
    s.pending = 0;
    finish_move(s);
  }
}

}  // namespace tzmark
