// Another implementation in its own process, controlled over JSON lines by the protocol of bench/peers/driver.py.
//
// The driver times the operation alone with its own clock, so nothing is timed here. For one thread at a time. Errors:
// TZE-AVL-001 if the driver cannot be started or reports that its peer is unavailable; TZE-ENV-006 with the tail of its
// stderr if it ends, times out, answers anything but one line of JSON, or answers {"error": ...}. The driver survives
// only the last of these.
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
  // argv: the interpreter and the driver. Waits for the first line, which may take long because of imports.
  explicit Peer(const std::vector<std::string>& argv, std::chrono::milliseconds timeout = std::chrono::minutes(2));
  // Asks the driver to quit, waits briefly, and kills it.
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  // The first line of the driver: {"peer", "version", "detail", "operations", "formats"}.
  const nlohmann::json& hello() const { return hello_; }

  // Whether it can answer: false once it has ended or broken the protocol.
  bool is_running() const { return child_ != nullptr; }

  nlohmann::json request(const nlohmann::json& question, std::chrono::milliseconds timeout = std::chrono::minutes(10));

 private:
  void send(const std::string& line, Clock::time_point deadline);
  nlohmann::json receive(Clock::time_point deadline);
  // Ends the driver and throws with its exit status and stderr.
  [[noreturn]] void give_up(const std::string& what);

  std::string name_;
  OutputFile stderr_;
  Descriptor to_;  // a socket, where writing to an ended driver is an error instead of a signal
  Descriptor from_;
  std::string received_;
  std::unique_ptr<Child> child_;
  nlohmann::json hello_;
};

}  // namespace tzmark::bench
