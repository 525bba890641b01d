// An implementation under test, asked in either form of the adapter protocol: one process per question, or processes
// that serve many.
//
// Thread-safety: ask may be called from several threads at once; each has a serving process of its own.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
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
#include "runner/limits.h"
#include "runner/process.h"
#include "runner/protocol.h"

namespace tzmark::conformance {

// A range of a file.
struct FileRange {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

// How the process of a question is started. Questions with the same answers here may have one process.
struct Launch {
  std::vector<std::string> prefix = {};  // words before the adapter's own, of a program that executes the rest
  bool enters_ruleset_itself = false;    // as in Containment, of that program
  std::optional<std::uint16_t> server_port = std::nullopt;  // of the server that the process may connect to

  auto operator<=>(const Launch&) const = default;
};

// One command on one file.
struct Question {
  Command command = Command::kDecode;
  std::filesystem::path file;  // of encode: the specification
  std::filesystem::path out;   // of encode: the file to write
  std::filesystem::path directory =
      {};  // temporary, of these files: what is written there counts; empty if there is none
  std::optional<std::string> key_hex;
  std::optional<std::string> passphrase;
  const Feed* feed = nullptr;                    // of stream: the content for stdin
  std::optional<FileRange> part = std::nullopt;  // if the question is about a range of the file
  std::string url = {};                          // if the file is served, in place of its name
  Launch launch = {};
};

// What capabilities takes beyond these does not raise the limits of the cases, since it may be waste. Importing PyTorch
// takes 225 MiB.
inline constexpr std::uint64_t kIdleRssMaxBytes = 512u << 20;
inline constexpr std::chrono::nanoseconds kIdleElapsedMax = std::chrono::seconds(3);

enum class Form {
  kAny,      // serving, if the profile has that
  kOneShot,  // one process per question
};

class Adapter {
 public:
  // Asks for the capabilities, at most for a minute. Throws EnvironmentError if the command cannot be started or does
  // not print a profile. A profile that is given takes the place of the printed one. cancelled must outlive the
  // adapter.
  Adapter(std::vector<std::string> argv, const std::atomic<bool>& cancelled, Form form = Form::kAny,
          std::optional<Profile> profile = std::nullopt, Permissions permissions = {});

  // What its processes may do besides reading files. All of them are contained.
  const Permissions& permissions() const { return permissions_; }
  const std::vector<std::string>& argv() const { return argv_; }
  const Profile& profile() const { return profile_; }
  bool serves() const { return serves_; }
  // Whether a process that serves is asked: one has one stdin, which carries either requests or a file.
  bool asks_service(Command command) const { return serves_ && command != Command::kStream; }
  // Upper bounds of what the implementation takes to start and do nothing.
  std::uint64_t idle_rss_bytes() const { return idle_rss_bytes_; }
  std::chrono::nanoseconds idle_elapsed() const { return idle_elapsed_; }
  // The part of it that limits of cases count on top of.
  std::uint64_t idle_counted_rss_bytes() const { return std::min(idle_rss_bytes_, kIdleRssMaxBytes); }
  std::chrono::nanoseconds idle_counted_elapsed() const { return std::min(idle_elapsed_, kIdleElapsedMax); }

  // Asks one question within the limits. Throws EnvironmentError if the command cannot be started, or none of its
  // processes serves, and UsageError if it serves and a name is not UTF-8. Where another
  // process serves, the step has no answer and no service. ends_after_answers reports a process that serves and ends
  // after its answer.
  Step ask(const Question& question, const Limits& limits) const;

  // Ends the processes that serve this thread; each has one second to exit. Each thread that asked calls this before it
  // ends, which would kill them. Throws EnvironmentError if one cannot be ended.
  void end_services() const;

  // How processes ended after an answer, other than with exit status 0 or killed by this object, by the number of the
  // last question that each answered.
  std::map<std::uint64_t, ProcessResult> ends_after_answers() const;

  // The command line of a question, for a POSIX shell with process substitution (bash, zsh).
  std::string shell_command(const Question& question) const;
  // The command line that puts questions to one process that serves.
  std::string served_shell_command(const std::vector<Question>& questions) const;

 private:
  // A process that serves, and its usage before the first question.
  struct Service {
    std::unique_ptr<Server> server;
    std::uint64_t number = 0;
    std::uint64_t next_id = 0;
    std::optional<std::uint64_t> answered;  // number of the last question, if it was answered
    std::uint64_t idle_rss_bytes = 0;
    std::uint64_t idle_disk_bytes = 0;

    bool keeps_too_much() const;
  };

  Step ask_process(const Question& question, const Limits& limits) const;
  Step ask_service(const Question& question, const Limits& limits) const;
  void end_service(std::unique_ptr<Service>& service) const;
  void note_end(const Service& service, const ProcessResult& end) const;
  Containment containment_of(const Launch& launch) const;
  std::unique_ptr<Service> start_service(const Launch& launch) const;
  // Counts a start of a process while it exists.
  class Starting {
   public:
    explicit Starting(const Adapter& adapter);
    ~Starting();
    Starting(const Starting&) = delete;
    Starting& operator=(const Starting&) = delete;

   private:
    const Adapter& adapter_;
  };

  // Waits until a process has served or none is being started, and returns whether one has.
  bool one_has_served() const;
  // Returns false, with the reason in the step, if the new process does not serve, but another one does.
  bool replace_service(std::unique_ptr<Service>& service, const Launch& launch, Step& step) const;
  std::unique_ptr<Service>& service_of_this_thread(const Launch& launch) const;

  std::vector<std::string> argv_;
  const std::atomic<bool>& cancelled_;
  const Permissions permissions_;
  Profile profile_;
  Json printed_profile_;
  bool serves_ = false;
  std::uint64_t idle_rss_bytes_ = 0;
  std::chrono::nanoseconds idle_elapsed_{0};

  // A process dies with the thread that started it, so each thread has its own.
  mutable std::mutex mutex_;
  mutable std::map<std::pair<std::uint64_t, Launch>, std::unique_ptr<Service>> services_;  // by thread
  mutable std::map<std::uint64_t, ProcessResult> ends_after_answers_;
  mutable std::atomic<std::uint64_t> asked_ = 0;
  mutable std::atomic<std::uint64_t> services_started_ = 0;
  mutable std::atomic<bool> has_served_ = false;
  mutable std::atomic<bool> start_failed_ = false;
  mutable unsigned starting_ = 0;                // guarded by mutex_
  mutable std::condition_variable start_ended_;  // with mutex_
};

}  // namespace tzmark::conformance
