// Another implementation as a process that is asked over JSON lines; the protocol is that of bench/peers/driver.py.
//
// The driver's clock is its own and runs around the operation alone, so nothing here is timed. For one thread at a
// time. Errors: TZE-AVL-001 if the driver cannot be started or says that its peer is unavailable; TZE-ENV-006 with the
// tail of its stderr if it ends, answers too late or with anything but one line of JSON, or answers {"error": ...}.
// After any of these but the last the driver is gone.
#pragma once

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/process.h"

namespace tzmark::bench {

class Peer {
 public:
  // argv: the interpreter and the driver. Waits for its first line; imports take a while.
  explicit Peer(const std::vector<std::string>& argv, std::chrono::milliseconds timeout = std::chrono::minutes(2));
  // Asks it to quit, waits a moment, and ends it then.
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  // What it said first: {"peer", "version", "detail", "operations", "formats"}.
  const nlohmann::json& hello() const { return hello_; }

  nlohmann::json request(const nlohmann::json& question, std::chrono::milliseconds timeout = std::chrono::minutes(10));

 private:
  void send(const std::string& line, Clock::time_point deadline);
  nlohmann::json receive(Clock::time_point deadline);
  // Ends the driver and throws what it did and what it said.
  [[noreturn]] void give_up(const std::string& what);

  std::string name_;
  OutputFile stderr_;
  Descriptor to_;  // a socket: writing to a driver that is gone is an error there, and not a signal
  Descriptor from_;
  std::string received_;
  std::unique_ptr<Child> child_;
  nlohmann::json hello_;
};

}  // namespace tzmark::bench
