// An implementation under test, spoken to in either form of the adapter protocol: one process a question, or processes
// that serve many.
//
// Thread-safety: ask may be called from several threads at once; each has a serving process of its own.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runner/judge.h"
#include "runner/process.h"
#include "runner/protocol.h"

namespace tzmark::conformance {

// Where a file lies in a larger one.
struct FileRange {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

// One command on one file.
struct Question {
  Command command = Command::kDecode;
  std::filesystem::path file;  // of encode: the specification
  std::filesystem::path out;   // of encode: the file to be written
  std::optional<std::string> key_hex;
  std::optional<std::string> passphrase;
  const Feed* feed = nullptr;                    // of stream: the file's bytes, on stdin
  std::optional<FileRange> part = std::nullopt;  // of the file, if that is larger than what is asked about
  std::vector<std::string> prefix = {};  // words in front of the adapter's own, of a program that becomes the rest
};

// What capabilities takes beyond these does not raise the limits of the cases: it may be what the implementation needs
// to start, and may as well be for nothing. Importing PyTorch takes 225 MiB.
inline constexpr std::uint64_t kIdleRssMaxBytes = 512u << 20;
inline constexpr std::chrono::nanoseconds kIdleElapsedMax = std::chrono::seconds(3);

// What a question may write to its folders, besides as much as it is about.
inline constexpr std::uint64_t kDiskMaxBytes = 256u << 20;

enum class Form {
  kAny,      // serving, if the profile has that
  kOneShot,  // one process a question
};

class Adapter {
 public:
  // Asks for the capabilities, at most for a minute. Throws EnvironmentError if the command cannot be started or does
  // not print a profile. A profile that is given takes the place of the printed one. cancelled must outlive the
  // adapter.
  Adapter(std::vector<std::string> argv, const std::atomic<bool>& cancelled, Form form = Form::kAny,
          std::optional<Profile> profile = std::nullopt);

  const std::vector<std::string>& argv() const { return argv_; }
  const Profile& profile() const { return profile_; }
  bool serves() const { return serves_; }
  // Whether a process that serves is asked: one has one stdin, which carries either requests or a file.
  bool asks_service(Command command) const { return serves_ && command != Command::kStream; }
  // What the implementation takes to start and do nothing, at most.
  std::uint64_t idle_rss_bytes() const { return idle_rss_bytes_; }
  std::chrono::nanoseconds idle_elapsed() const { return idle_elapsed_; }
  // So much of it as counts as idle; limits of cases count from there.
  std::uint64_t idle_counted_rss_bytes() const { return std::min(idle_rss_bytes_, kIdleRssMaxBytes); }
  std::chrono::nanoseconds idle_counted_elapsed() const { return std::min(idle_elapsed_, kIdleElapsedMax); }

  // Puts one question, within the limits given. Throws EnvironmentError if the command cannot be started, or does not
  // serve any more though it did. A process that serves and ends after its answer is told of by ends_after_answers.
  Step ask(const Question& question, std::chrono::nanoseconds elapsed_max, std::uint64_t memory_max_bytes) const;

  // Ends the processes that serve this thread, each with a second to end by itself. To be called by each thread that
  // asked, before it ends: what serves it would be killed. Throws EnvironmentError if one cannot be ended.
  void end_services() const;

  // How processes ended that had answered: otherwise than with exit status 0 or killed by this object. By the number of
  // the last question that each answered.
  std::map<std::uint64_t, ProcessResult> ends_after_answers() const;

  // The command line of a question, for a POSIX shell with process substitution (bash, zsh).
  std::string shell_command(const Question& question) const;

 private:
  // A process that serves, and what it used before the first question.
  struct Service {
    std::unique_ptr<Server> server;
    std::uint64_t next_id = 0;
    std::optional<std::uint64_t> answered;  // the number of the last question, if that was answered
    std::uint64_t idle_rss_bytes = 0;
    std::uint64_t idle_disk_bytes = 0;

    bool keeps_too_much() const;
  };

  Step ask_process(const Question& question, std::chrono::nanoseconds elapsed_max,
                   std::uint64_t memory_max_bytes) const;
  Step ask_service(const Question& question, std::chrono::nanoseconds elapsed_max,
                   std::uint64_t memory_max_bytes) const;
  void end_service(std::unique_ptr<Service>& service) const;
  void note_end(const Service& service, const ProcessResult& end) const;
  std::unique_ptr<Service> start_service(const std::vector<std::string>& prefix) const;
  std::unique_ptr<Service>& service_of_this_thread(const std::vector<std::string>& prefix) const;

  std::vector<std::string> argv_;
  const std::atomic<bool>& cancelled_;
  Profile profile_;
  Json printed_profile_;
  bool serves_ = false;
  std::uint64_t idle_rss_bytes_ = 0;
  std::chrono::nanoseconds idle_elapsed_{0};

  // A process dies with the thread that started it, so every thread has its own, and one for each prefix.
  mutable std::mutex mutex_;
  mutable std::map<std::pair<std::uint64_t, std::vector<std::string>>, std::unique_ptr<Service>>
      services_;  // by thread
  mutable std::map<std::uint64_t, ProcessResult> ends_after_answers_;
  mutable std::atomic<std::uint64_t> asked_ = 0;
};

}  // namespace tzmark::conformance
