// The counters of tzmark/shortage.h.
#include <atomic>

#include "bytes/threads.h"

namespace tzmark {
namespace {

std::atomic<std::uint64_t> threads_missing = 0;
std::atomic<std::uint64_t> transfers_in_place = 0;

}  // namespace

Shortage shortage() { return {threads_missing, transfers_in_place}; }

void count_missing_threads(std::uint64_t threads) { threads_missing += threads; }
void count_transfer_in_place() { ++transfers_in_place; }

}  // namespace tzmark
