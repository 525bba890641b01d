// The pthread_create of test programs.
#include "testing/faults/thread_limit.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <stdexcept>

namespace tzmark::test {
namespace {

std::atomic<bool> armed = false;
std::atomic<int> threads_left = 0;
std::atomic<int> threads_refused = 0;

}  // namespace

ThreadLimit::ThreadLimit(int threads) {
  if (armed.exchange(true)) throw std::logic_error("one limit at a time");
  threads_left = threads;
  threads_refused = 0;
}

ThreadLimit::~ThreadLimit() { armed = false; }

int ThreadLimit::refused() const { return threads_refused; }

}  // namespace tzmark::test

// The signature is the C library's.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                              void* argument) {
  using namespace tzmark::test;
  if (armed && threads_left.fetch_sub(1) <= 0) {
    ++threads_refused;
    return EAGAIN;
  }
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "pthread_create"));
  return create(thread, attributes, start, argument);
}
