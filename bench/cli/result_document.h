// The result document, which reports and comparisons read; reports/schema/bench.schema.json describes it.
#pragma once

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/check.h"
#include "cli/rounds.h"
#include "workloads/workload.h"

namespace tzmark::bench {

// Raised when the same code on the same machine gets other figures than before: results of different versions are not
// comparable.
inline constexpr int kMeasuringCoreVersion = 5;

// The rate of a single step, measured in the rounds.
struct CeilingRate {
  std::string rung;  // "memcpy", "crc32", "sha256", "secretbox", "path-read/direct", "device-write"
  unsigned threads = 0;
  Interval rate;
  std::string note;
};

// Returns the ceilings among subjects that were measured together.
std::vector<CeilingRate> ceilings_of(const std::vector<Measured>& measured);

nlohmann::json to_json(const MachineConditions& conditions);

// The notes of a result; the last one gives the reason if it was not measured.
std::vector<std::string> notes_of(const Measured& measured);

// The members `tool` and `io_paths` of result documents.
nlohmann::json tool_facts();
// The words of a command line, without what may be secret in URLs: user information and query.
std::vector<std::string> shown_command(std::vector<std::string> command);
// url: of a file that is measured on a server, which one path can read; if empty, of the paths for files of this
// machine.
nlohmann::json io_path_facts(const std::string& url = "");
// What a reader of cold and direct reads has to know of this machine.
std::vector<std::string> cold_read_warnings(const nlohmann::json& machine);

class Document {
 public:
  // directory: where the measured files are, or the URL of the one that is measured.
  Document(std::vector<std::string> command, std::string directory);

  void add_workload(const Workload& workload);
  // Adds subjects that were measured together. An id that an earlier group has gets a number.
  void add(const std::vector<Measured>& measured);
  // Adds checks of the subjects added last.
  void add(const std::vector<RatioCheck>& checks);
  void add(const MachineConditions& conditions);
  // States that each result ran for this time instead of rounds.
  void add_duration(std::uint64_t seconds) { json_["duration_s"] = seconds; }
  const nlohmann::json& machine() const { return json_["machine"]; }
  // What a reader of the figures has to know: that data is small, or that a cache is out of reach.
  std::vector<std::string> warnings() const;
  // Adds a warning. Before warnings().
  void add_note(std::string note) { notes_.push_back(std::move(note)); }
  // States that a signal ended the run.
  void add_interruption(std::string note);
  // REQUIRES: not called before.
  nlohmann::json finish(unsigned rounds, std::uint64_t seed);

 private:
  std::vector<std::string> notes_;
  nlohmann::json json_;
  std::set<std::string> ids_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace tzmark::bench
