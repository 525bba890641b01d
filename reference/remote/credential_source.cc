// See remote/credential_source.h. Documentation: "Use IMDSv2" in the user guide of Amazon EC2, and that of
// remote/credentials.cc.
#include "remote/credential_source.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/url.h"
#include "io/wait_check.h"
#include "remote/answer.h"
#include "remote/object.h"
#include "remote/s3_sender.h"
#include "remote/settings.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
using WallClock = std::chrono::system_clock;

// The endpoint is on this machine or next to it, and answers at once.
constexpr milliseconds kEndpointConnectMax{2'000};
constexpr milliseconds kEndpointStallMax{5'000};
constexpr milliseconds kEndpointDeadline{20'000};
constexpr milliseconds kWaitMax{250};
// Requests that are about to be sent share a failure, rather than to wait for the same endpoint one after another.
constexpr milliseconds kFailureLasts{5'000};
// After a failed fetch, while the credentials are valid.
constexpr std::chrono::minutes kNextFetchMax{1};
// Of the token for the metadata of an instance, which is used for two requests.
constexpr const char* kTokenLifetimeField = "X-aws-ec2-metadata-token-ttl-seconds: 300";

// Asks an endpoint once.
class Fetch {
 public:
  Fetch(const CredentialsEndpoint& endpoint, const RemoteSettings& settings, bool is_interruptible, bool is_refresh)
      : endpoint_(endpoint),
        settings_(settings),
        is_interruptible_(is_interruptible),
        end_(Clock::now() + std::min(settings.deadline, is_refresh ? kEndpointStallMax : kEndpointDeadline)) {
    settings_.connect_max = std::min(settings_.connect_max, kEndpointConnectMax);
    settings_.stall_max = std::min(settings_.stall_max, kEndpointStallMax);
    if (is_refresh) settings_.attempts_max = 1;
    settings_.may_use_proxy = false;
  }

  TemporaryCredentials run() const {
    const bool is_container = endpoint_.kind == CredentialsEndpoint::Kind::kContainer;
    const std::string field = is_container ? authorization_field(endpoint_) : "";
    try {
      const auto credentials =
          parse_credentials(is_container ? ask(S3Method::kGet, endpoint_.address, field) : answer_of_instance());
      if (credentials.expires_at <= WallClock::now()) {
        throw Error(ErrorCode::kOpenFailed, "the credentials have expired, by the clock of this machine");
      }
      return credentials;
    } catch (const Error& error) {
      throw Error(ErrorCode::kOpenFailed, fmt::format("cannot get credentials from {}: {}",
                                                      parse_url(endpoint_.address).origin(), error.message()));
    }
  }

 private:
  std::string ask(S3Method method, const std::string& address, const std::string& field) const {
    const S3Destination to{Target(parse_url(address)), {}, settings_};
    S3Counts counts;
    S3Sender sender(to, counts);
    sender.set_interruptible(is_interruptible_);
    // One end of all requests.
    const auto left = std::chrono::ceil<milliseconds>(end_ - Clock::now());
    S3Request request{.method = method};
    request.deadline = std::max(left, milliseconds(1));
    if (!field.empty()) request.fields.push_back(field);
    const S3Reply reply = sender.send(request);
    const int status = reply.answer.status();
    if (status == 200) return reply.body;
    throw Error(ErrorCode::kOpenFailed, status_text(status) + (is_redirect(status) ? ", which is not followed" : ""));
  }

  std::string answer_of_instance() const {
    const std::string token = ask(S3Method::kPut, endpoint_.address + "/latest/api/token", kTokenLifetimeField);
    if (!is_sendable_token(token)) throw Error(ErrorCode::kOpenFailed, "the answer is not a token");
    const std::string field = "X-aws-ec2-metadata-token: " + token;
    const std::string roles = endpoint_.address + "/latest/meta-data/iam/security-credentials/";
    const std::string answer = ask(S3Method::kGet, roles, field);
    const std::string role = answer.substr(0, answer.find_first_of("\r\n"));
    if (!is_role_name(role)) throw Error(ErrorCode::kOpenFailed, "the answer is not the name of a role");
    return ask(S3Method::kGet, roles + percent_encoded(role, "-._~"), field);
  }

  const CredentialsEndpoint& endpoint_;
  RemoteSettings settings_;
  const bool is_interruptible_;
  const Clock::time_point end_;
};

class Source {
 public:
  // Takes the settings at once: the environment may change while other threads read it.
  explicit Source(CredentialsEndpoint endpoint)
      : endpoint_(std::move(endpoint)), settings_(remote_settings(process_environment)) {}

  // A child process fetches for itself: a thread that was fetching is not there.
  bool serves(const CredentialsEndpoint& endpoint) const { return endpoint == endpoint_ && ::getpid() == process_; }

  TemporaryCredentials current(bool is_interruptible) {
    std::unique_lock lock(mutex_);
    const std::uint64_t failures_before = failures_;
    while (is_fetching_ && !is_valid()) {
      ended_.wait_for(lock, kWaitMax);
      lock.unlock();
      if (is_interruptible) check_wait();
      lock.lock();
    }
    // One failure is that of all who waited for it, and of those who come soon after.
    if (!is_valid() && failure_ && (failures_ != failures_before || Clock::now() < failure_ends_)) {
      throw Error(*failure_);
    }
    if (is_valid() && (is_fetching_ || WallClock::now() < fetch_at_)) return *held_;
    // Credentials that expire during a failed fetch are worth more attempts.
    const bool was_valid = is_valid();
    if (!fetch(lock, is_interruptible) && was_valid) fetch(lock, is_interruptible);
    if (!is_valid()) throw Error(*failure_);  // which fetch has set
    return *held_;
  }

 private:
  bool is_valid() const { return held_ && WallClock::now() < held_->expires_at; }

  // Returns whether there are valid credentials afterwards.
  bool fetch(std::unique_lock<std::mutex>& lock, bool is_interruptible) {
    const Fetch request(endpoint_, settings_, is_interruptible, is_valid());
    is_fetching_ = true;
    lock.unlock();
    std::optional<TemporaryCredentials> fetched;
    std::optional<Error> failure;
    try {
      fetched = request.run();
    } catch (const Error& error) {
      failure = error;
    } catch (...) {
      lock.lock();
      end();
      throw;
    }
    lock.lock();
    end();
    const auto now = WallClock::now();
    const bool fetched_now = fetched.has_value();
    if (fetched) {
      held_ = std::move(fetched);
      fetch_at_ = refresh_time(now, held_->expires_at);
      // By a clock that was set meanwhile, they may have expired.
      failure.emplace(ErrorCode::kOpenFailed, "the credentials have expired, by the clock of this machine");
    }
    if (held_ && now < held_->expires_at) {
      if (!fetched_now) fetch_at_ = now + std::min<WallClock::duration>(kNextFetchMax, (held_->expires_at - now) / 2);
      return true;
    }
    ++failures_;
    failure_ = std::move(failure);
    failure_ends_ = Clock::now() + kFailureLasts;
    return false;
  }

  void end() {
    is_fetching_ = false;
    ended_.notify_all();
  }

  const CredentialsEndpoint endpoint_;
  const RemoteSettings settings_;
  const ::pid_t process_ = ::getpid();
  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_fetching_ = false;
  std::optional<TemporaryCredentials> held_;
  WallClock::time_point fetch_at_;
  std::uint64_t failures_ = 0;
  std::optional<Error> failure_;
  Clock::time_point failure_ends_;
};

}  // namespace

TemporaryCredentials current_credentials(const CredentialsEndpoint& endpoint, bool is_interruptible) {
  // A process seldom has more than one.
  constexpr std::size_t kSourcesMax = 8;
  static std::mutex mutex;
  static std::vector<std::shared_ptr<Source>> sources;
  std::shared_ptr<Source> source;
  {
    const std::lock_guard lock(mutex);
    const auto found = std::ranges::find_if(sources, [&](const auto& one) { return one->serves(endpoint); });
    if (found != sources.end()) {
      source = *found;
    } else {
      source = std::make_shared<Source>(endpoint);
      if (sources.size() == kSourcesMax) sources.erase(sources.begin());
      sources.push_back(source);
    }
  }
  return source->current(is_interruptible);
}

}  // namespace tzmark
