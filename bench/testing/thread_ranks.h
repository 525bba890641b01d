// Ranks that are threads of one process, for tests: what a program of MPI does, without MPI.
#pragma once

#include <barrier>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "cluster/ranks.h"

namespace tzmark::bench {

// What the threads share.
struct MeetingPlace {
  explicit MeetingPlace(unsigned size) : all(size), texts(size) {}

  std::barrier<> all;
  std::span<std::byte> sent;
  std::vector<std::string> texts;
};

class ThreadRanks final : public Ranks {
 public:
  // per_host: consecutive ranks share a host.
  ThreadRanks(MeetingPlace& place, unsigned rank, unsigned per_host)
      : place_(place), rank_(rank), host_{"host" + std::to_string(rank / per_host), rank % per_host, per_host} {}

  unsigned rank() const override { return rank_; }
  unsigned size() const override { return static_cast<unsigned>(place_.texts.size()); }
  const HostOfRank& host() const override { return host_; }
  void barrier() override { place_.all.arrive_and_wait(); }

  void broadcast(std::span<std::byte> memory, unsigned root) override {
    if (rank_ == root) place_.sent = memory;
    barrier();
    if (rank_ != root) std::memcpy(memory.data(), place_.sent.data(), memory.size());
    barrier();
  }

  std::vector<std::string> gather(const std::string& mine) override {
    place_.texts[rank_] = mine;
    barrier();
    std::vector<std::string> all;
    if (rank_ == 0) all = place_.texts;
    barrier();
    return all;
  }

 private:
  MeetingPlace& place_;
  const unsigned rank_;
  const HostOfRank host_;
};

// Runs a program on each rank, and waits for all.
inline void run_on_ranks(unsigned size, unsigned per_host, const std::function<void(Ranks&)>& program) {
  MeetingPlace place(size);
  std::vector<std::thread> threads;
  for (unsigned rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadRanks ranks(place, rank, per_host);
      program(ranks);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tzmark::bench
