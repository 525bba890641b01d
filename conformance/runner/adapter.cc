// An implementation under test; see adapter.h.
#include "runner/adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <system_error>
#include <utility>

#include "model/text.h"
#include "runner/command_line.h"
#include "runner/directory_tree.h"
#include "runner/errors.h"
#include "runner/keeper.h"
#include "runner/scratch_file.h"

namespace tzmark::conformance {
namespace {

// Enough for an implementation that compiles or imports much at its first start.
// More threads than any pool on a large machine, and as many files as two processes may have.
constexpr std::uint64_t kThreadsMax = 4096;
constexpr std::uint64_t kFilesMax = 2 * kProcessFilesMax;

const ProcessLimits kCapabilitiesLimits = {.elapsed_max = std::chrono::minutes(1),
                                           .disk_max_bytes = Limits().disk_max_bytes,
                                           .threads_max = kThreadsMax,
                                           .files_max = kFilesMax};

// How much a process that serves may keep from earlier questions, in memory and on disk: more than a library loads on
// first use, and less than the limits of cases.
constexpr std::uint64_t kServiceGrowthMaxBytes = 32u << 20;

// A process that does not tell its profile.
class NoProfileError : public EnvironmentError {
 public:
  NoProfileError(const std::string& reason, ProcessResult process)
      : EnvironmentError(fmt::format("the adapter's capabilities: {}; its stderr ends in: {}", reason,
                                     one_line(process.stderr_tail, 1000))),
        reason_(reason),
        process_(std::move(process)) {}

  const std::string& reason() const { return reason_; }
  const ProcessResult& process() const { return process_; }

 private:
  std::string reason_;
  ProcessResult process_;
};

// Any bytes make a name, and JSON has only UTF-8.
std::string json_name(const std::filesystem::path& file) {
  if (model::is_utf8(file.native())) return file.native();
  throw UsageError(fmt::format(
      "{}: the name is not UTF-8, and an adapter that serves gets names as JSON; rename it, or use --one-shot",
      file.native()));
}

Json request_of(const Question& question, std::uint64_t id) {
  Json request = {{"id", id}, {"command", name_of(question.command)}};
  if (question.command == Command::kEncode) {
    request["spec"] = json_name(question.file);
    request["out"] = json_name(question.out);
  } else {
    request["file"] = question.url.empty() ? json_name(question.file) : question.url;
  }
  if (question.key_hex) request["key_hex"] = *question.key_hex;
  if (question.passphrase) request["passphrase"] = *question.passphrase;
  if (question.part) {
    request["offset"] = question.part->offset;
    request["length"] = question.part->length;
  }
  return request;
}

// The words after the adapter's own, without the key and the range of the file.
std::vector<std::string> words_of(const Question& question) {
  std::vector<std::string> words = {std::string(name_of(question.command))};
  if (question.command != Command::kStream)
    words.push_back(question.url.empty() ? question.file.string() : question.url);
  if (question.command == Command::kEncode) words.push_back(question.out.string());
  return words;
}

std::vector<std::string> range_words(const Question& question) {
  if (!question.part) return {};
  return {"--offset", std::to_string(question.part->offset), "--length", std::to_string(question.part->length)};
}

// Data next to a specification counts up to this much.
constexpr std::uint64_t kFileMaxBytes = 4ull << 30;

std::uint64_t size_of(const Question& question) {
  if (question.feed) return question.feed->bytes.size();
  // The data of encode is next to the specification. A FIFO has no size.
  if (question.command == Command::kEncode) {
    return std::min(disk_bytes_below(question.directory, kFileMaxBytes), kFileMaxBytes);
  }
  std::error_code none;
  const std::uintmax_t bytes = std::filesystem::file_size(question.file, none);
  return none ? 0 : bytes;
}

// No limit where it is larger than any number.
std::uint64_t sum_or_max(std::uint64_t a, std::uint64_t b) {
  return a + std::min(b, std::numeric_limits<std::uint64_t>::max() - a);
}

ProcessLimits process_limits(const Question& question, const Limits& limits, std::chrono::nanoseconds idle_elapsed,
                             std::uint64_t idle_rss_bytes) {
  return {.elapsed_max = idle_elapsed + limits.elapsed_max,
          .rss_max_bytes = sum_or_max(idle_rss_bytes, limits.memory_max_bytes),
          .disk_max_bytes = limits.disk_max_bytes + size_of(question),
          .out_directory = question.directory,
          .threads_max = kThreadsMax,
          .files_max = kFilesMax};
}

// The system reuses ids of threads that ended; another thread would find a service that is dying.
std::uint64_t number_of_this_thread() {
  static std::atomic<std::uint64_t> threads = 0;
  thread_local const std::uint64_t number = threads++;
  return number;
}

const char* key_option(const Question& question) { return question.key_hex ? "--key-file" : "--passphrase-file"; }

}  // namespace

Adapter::Adapter(std::vector<std::string> argv, const std::atomic<bool>& cancelled, Form form,
                 std::optional<Profile> profile, Permissions permissions)
    : argv_(std::move(argv)), cancelled_(cancelled), permissions_(std::move(permissions)) {
  std::vector<std::string> command = argv_;
  command.push_back("capabilities");
  const Containment containment = containment_of({});
  const ProcessResult process = run_process(command, kCapabilitiesLimits, cancelled_, nullptr, &containment);
  if (process.end != ProcessEnd::kExited || process.exit_status != 0) {
    // read_answer describes the end of a process in words.
    const std::string end = process.end == ProcessEnd::kExited ? fmt::format("exit status {}", process.exit_status)
                                                               : read_answer(Command::kDecode, process).text;
    throw NoProfileError(end, process);
  }
  profile_ = parse_profile(process.stdout_text);
  printed_profile_ = profile_.document;
  if (profile) profile_ = std::move(*profile);
  serves_ = form == Form::kAny && profile_.serves();
  // Rounds in favour of the adapter what cannot be measured exactly.
  idle_rss_bytes_ = process.rss_bound_bytes;
  idle_elapsed_ = process.elapsed;
}

Containment Adapter::containment_of(const Launch& launch) const {
  return {.permissions = permissions_,
          .server_port = launch.server_port,
          .enters_ruleset_itself = launch.enters_ruleset_itself};
}

Step Adapter::ask(const Question& question, const Limits& limits) const {
  return asks_service(question.command) ? ask_service(question, limits) : ask_process(question, limits);
}

void Adapter::end_services() const {
  std::vector<std::unique_ptr<Service>> own;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [key, service] : services_) {
      if (key.first == number_of_this_thread()) own.push_back(std::move(service));
    }
  }
  for (std::unique_ptr<Service>& service : own) end_service(service);
}

std::map<std::uint64_t, ProcessResult> Adapter::ends_after_answers() const {
  const std::lock_guard lock(mutex_);
  return ends_after_answers_;
}

std::string Adapter::shell_command(const Question& question) const {
  std::vector<std::string> words = question.launch.prefix;
  words.insert(words.end(), argv_.begin(), argv_.end());
  for (std::string& word : words_of(question)) words.push_back(std::move(word));
  std::string command = join_command(words);
  if (question.key_hex || question.passphrase) {
    const std::string& secret = question.key_hex ? *question.key_hex : *question.passphrase;
    command += fmt::format(" {} <(printf %s {})", key_option(question), join_command({secret}));
  }
  if (question.part) command += " " + join_command(range_words(question));
  if (question.command == Command::kStream) command += " < " + join_command({question.file.string()});
  return command;
}

std::string Adapter::served_shell_command(const std::vector<Question>& questions) const {
  std::vector<std::string> lines = {"printf", "%s\\n", Json{{"id", 0}, {"command", "capabilities"}}.dump()};
  for (const Question& question : questions) lines.push_back(dump_line(request_of(question, lines.size() - 2)));
  std::vector<std::string> serve = argv_;
  serve.emplace_back("serve");
  return join_command(lines) + " | " + join_command(serve);
}

Step Adapter::ask_process(const Question& question, const Limits& limits) const {
  std::vector<std::string> argv = question.launch.prefix;
  argv.insert(argv.end(), argv_.begin(), argv_.end());
  for (std::string& word : words_of(question)) argv.push_back(std::move(word));
  std::unique_ptr<ScratchFile> secret;
  if (question.key_hex || question.passphrase) {
    secret = std::make_unique<ScratchFile>(question.key_hex ? *question.key_hex : *question.passphrase);
    argv.push_back(key_option(question));
    argv.push_back(secret->path().string());
  }
  for (std::string& word : range_words(question)) argv.push_back(std::move(word));
  Step step;
  step.command = question.command;
  step.number = asked_++;
  const Containment containment = containment_of(question.launch);
  step.process = run_process(argv, process_limits(question, limits, idle_counted_elapsed(), idle_counted_rss_bytes()),
                             cancelled_, question.feed, &containment);
  step.answer = read_answer(question.command, step.process);
  return step;
}

bool Adapter::Service::keeps_too_much() const {
  const std::uint64_t disk_max_bytes = idle_disk_bytes + kServiceGrowthMaxBytes;
  return server->rss_bytes() > idle_rss_bytes + kServiceGrowthMaxBytes ||
         server->disk_bytes(disk_max_bytes) > disk_max_bytes;
}

std::unique_ptr<Adapter::Service> Adapter::start_service(const Launch& launch) const {
  const Starting starting(*this);
  std::vector<std::string> command = launch.prefix;
  command.insert(command.end(), argv_.begin(), argv_.end());
  command.push_back("serve");
  const Containment containment = containment_of(launch);
  auto service = std::make_unique<Service>();
  service->number = services_started_++;
  service->server = std::make_unique<Server>(command, cancelled_, &containment);
  const Json request = {{"id", service->next_id}, {"command", "capabilities"}};
  ProcessLimits limits = kCapabilitiesLimits;
  // Otherwise every case that follows would take a minute.
  if (start_failed_) limits.elapsed_max = idle_counted_elapsed() + std::chrono::seconds(5);
  const ProcessResult process = service->server->exchange(request.dump(), limits);
  try {
    const Profile served = read_served_profile(service->next_id++, process);
    if (served.document != printed_profile_) throw EnvironmentError("serve tells another profile than capabilities");
  } catch (const EnvironmentError& error) {
    throw NoProfileError(error.what(), process);
  }
  has_served_ = true;
  service->idle_rss_bytes = process.rss_bound_bytes;
  service->idle_disk_bytes = process.disk_peak_bytes;
  return service;
}

Adapter::Starting::Starting(const Adapter& adapter) : adapter_(adapter) {
  const std::lock_guard lock(adapter_.mutex_);
  ++adapter_.starting_;
}

Adapter::Starting::~Starting() {
  {
    const std::lock_guard lock(adapter_.mutex_);
    --adapter_.starting_;
  }
  adapter_.start_ended_.notify_all();
}

bool Adapter::one_has_served() const {
  std::unique_lock lock(mutex_);
  start_ended_.wait(lock, [&] { return has_served_ || starting_ == 0; });
  return has_served_;
}

bool Adapter::replace_service(std::unique_ptr<Service>& service, const Launch& launch, Step& step) const {
  try {
    service = start_service(launch);
    return true;
  } catch (const NoProfileError& error) {
    start_failed_ = true;
    service.reset();
    if (!one_has_served()) {
      // No other process may have been started yet, so that this thread tries once more.
      try {
        service = start_service(launch);
      } catch (const NoProfileError&) {
        if (!one_has_served()) throw error;
      }
    }
    step.process = error.process();
    step.answer = {};
    step.answer.text = "a new process does not serve: " + error.reason();
    return false;
  }
}

void Adapter::end_service(std::unique_ptr<Service>& service) const {
  if (!service) return;
  if (const std::optional<ProcessResult> end = service->server->end()) note_end(*service, *end);
  service.reset();
}

void Adapter::note_end(const Service& service, const ProcessResult& end) const {
  const bool as_allowed = end.end == ProcessEnd::kExited && end.exit_status == 0;
  if (as_allowed || !service.answered) return;
  const std::lock_guard lock(mutex_);
  ends_after_answers_.emplace(*service.answered, end);
}

std::unique_ptr<Adapter::Service>& Adapter::service_of_this_thread(const Launch& launch) const {
  const std::lock_guard lock(mutex_);
  return services_[{number_of_this_thread(), launch}];
}

Step Adapter::ask_service(const Question& question, const Limits& limits) const {
  std::unique_ptr<Service>& service = service_of_this_thread(question.launch);
  // What earlier questions left must neither count for this one nor hide what this one takes.
  if (service && service->keeps_too_much()) end_service(service);
  // A process may end between two questions.
  if (service && !service->server->ready()) end_service(service);
  Step step;
  step.command = question.command;
  step.number = asked_++;
  if (!service && !replace_service(service, question.launch, step)) return step;
  const auto exchange = [&](std::uint64_t id) {
    const std::uint64_t idle_rss_bytes = std::min(service->idle_rss_bytes, kIdleRssMaxBytes);
    return service->server->exchange(dump_line(request_of(question, id)),
                                     process_limits(question, limits, {}, idle_rss_bytes));
  };
  std::uint64_t id = service->next_id++;
  step.process = exchange(id);
  const bool ended = step.process.end == ProcessEnd::kExited || step.process.end == ProcessEnd::kSignaled;
  if (ended && step.process.stdin_taken_bytes == 0) {
    // It ended before it read the question, so the question was not asked.
    note_end(*service, step.process);
    if (!replace_service(service, question.launch, step)) return step;
    id = service->next_id++;
    step.process = exchange(id);
  }
  step.service = service->number;
  step.answer = read_served_answer(question.command, id, step.process);
  const bool answered_badly =
      step.process.end == ProcessEnd::kAnswered && step.answer.kind == AnswerKind::kNone && !step.answer.caught;
  // A process out of step would answer the next question with the answer to this one.
  if (step.process.end != ProcessEnd::kAnswered || answered_badly) {
    service.reset();
  } else {
    service->answered = step.number;
  }
  return step;
}

}  // namespace tzmark::conformance
