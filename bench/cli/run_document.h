// A result of one process, as compare reads it: the document of tzmark bench, or the JSON of Google Benchmark.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tzmark::bench {

// The samples of one measurement in one process.
struct Series {
  std::string subject;                  // "codec", "raw", ..., "benchmark" of Google Benchmark
  std::string reference;                // id of the raw path with the same parameters; empty without one
  std::string witness;                  // id of fio with the same operation, I/O path and cache; empty without one
  std::map<std::size_t, double> rates;  // by round: bytes per second, or executions per second
  bool shares_rounds = true;            // with the raw path; in checks and long runs each subject counts its own
  std::string why_empty;
  std::map<std::string, nlohmann::json> parameters;

  // What a verdict is on. The others are references, relative to which it is judged.
  bool is_judged() const { return subject == "codec" || subject == "benchmark"; }
  // Whether it runs the code of the build. fio and most peers do not: they show what the machine does.
  bool is_of_build() const;
};

struct RunDocument {
  std::string file;
  std::string tool;  // "tzmark 0.1.0 (abc1234)", "Google Benchmark"
  // Everything that has to be equal for results to be comparable: machine, workloads, command, version of the measuring
  // core. A fact that a document lacks is unknown, which equals nothing that is known.
  std::map<std::string, nlohmann::json> facts;
  double load = 0;                       // at the start
  double cores = 0;                      // 0: unknown
  std::map<std::string, Series> series;  // by id; for writes also "ID to disk", with the fsync
};

// Reads a file of JSON. Throws kOpenFailed or kReadFailed; returns a discarded value if the text is not JSON.
nlohmann::json parse_file(const std::string& file);

// Throws kReadFailed if the file is neither, if two results share an id, so that their samples could not be told apart,
// or if a rate is not a finite positive number.
RunDocument load_run(const std::string& file);

// A fact or parameter in which a document differs from the first one.
struct Difference {
  std::string fact;
  std::string file;
  nlohmann::json expected, found;  // null: unknown
};

// Compares the facts of all documents with those of the first, and the parameters of each series with those of the
// first document that has it.
std::vector<Difference> differences_of(const std::vector<RunDocument>& documents);

// The logarithms of the rates; of the ratios to a reference, taken within each round where both have the same rounds,
// and to its median where they do not. REQUIRES: not empty.
std::vector<double> log_rates(const Series& series);
std::vector<double> log_ratios(const Series& series, const Series& reference);
// Their medians.
double log_rate(const Series& series);
double log_ratio(const Series& series, const Series& reference);

}  // namespace tzmark::bench
