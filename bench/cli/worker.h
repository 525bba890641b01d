// A process that takes samples for another one, which runs two builds in turn: tzmark bench worker.
//
// Speaks JSON lines, as the drivers of peers do (bench/peers/driver.py). Its first line:
//   {"protocol": 1, "version", "commit", "measuring_core", "program": its file and the state of that,
//    "executable": the name of that file, "lines": [name]}
// The names are the ids of the subjects before they are verified, thus without what only the build knows. Then, to
//   {"op": "run", "line": i}  {"line": i, "id", "bytes", "elapsed_ns", "sync_ns", "disturbance": {...}}, or
//                             {"line": i, "failed": message, "unavailable": bool, "wrong": bool}
//   {"op": "quit"}            nothing; the end of the input is the same
// A subject is verified before its first sample.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/turns.h"

namespace tzmark::bench {

// What a build says of itself.
struct BuildFacts {
  std::string version, commit, program, executable;
  int measuring_core = 0;
  std::vector<std::string> lines;

  bool operator==(const BuildFacts&) const = default;
};

// A worker of a build.
class WorkerProcess : public BuildProcess {
 public:
  // argv: a tzmark with the options of a worker. Throws kUnavailable if it cannot be started or does not answer as a
  // worker of this protocol.
  explicit WorkerProcess(const std::vector<std::string>& argv);
  ~WorkerProcess() override;

  const BuildFacts& facts() const { return facts_; }
  TurnSample sample(std::size_t line) override;
  bool is_running() const override;
  // The id of a line of which a sample was taken; "" of others.
  const std::string& id(std::size_t line) const { return ids_[line]; }

 private:
  std::unique_ptr<class Peer> process_;
  BuildFacts facts_;
  std::vector<std::string> ids_;
};

}  // namespace tzmark::bench
