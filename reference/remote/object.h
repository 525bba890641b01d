// A file on a server: where it is, what may be sent there, and the state that all of its requests share.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "io/url.h"
#include "remote/answer.h"
#include "remote/credentials.h"
#include "remote/settings.h"
#include "tzmark/io.h"

namespace tzmark {

// What proves to a server who asks. Sent to the origin of the file's URL, and never to another one.
struct Access {
  enum class Kind : std::uint8_t { kNone, kBasic, kAws };
  Kind kind = Kind::kNone;
  std::string user, password;  // for AWS, the key id and the secret key
  std::string session_token;   // of temporary AWS credentials; empty if there is none
  std::string signature;       // as CURLOPT_AWS_SIGV4 takes it: "aws:amz:us-east-1:s3"
  // What hands out key id, secret key and session token, which are then empty.
  std::optional<CredentialsEndpoint> endpoint = {};
};

struct Target {
  std::string address, origin;

  explicit Target(const Url& url) : address(url.address()), origin(url.origin()) {}
};

// Thread-safe, after identity was set.
class RemoteObject {
 public:
  RemoteObject(Target t, Access a, RemoteSettings s)
      : target(std::move(t)), access(std::move(a)), settings(std::move(s)) {}

  const Target target;
  const Access access;
  const RemoteSettings settings;
  // That of the first answer, set before there are several threads.
  Identity identity;

  // Where the last redirect led, or the target. Servers of models send each request to a store that keeps the files.
  Target current() const {
    const std::lock_guard lock(mutex_);
    return moved_ ? *moved_ : target;
  }
  void remember(const Target& moved) {
    const std::lock_guard lock(mutex_);
    moved_ = moved;
  }
  // Goes back to the target, as the address of a store expires. Returns false if the request did not go elsewhere.
  bool forget(const Target& failed) {
    const std::lock_guard lock(mutex_);
    if (failed.address == target.address) return false;
    if (moved_ && moved_->address == failed.address) moved_.reset();
    return true;
  }

  std::atomic<std::uint64_t> requests = 0, retries = 0, received_bytes = 0;
  RequestCounts counts() const { return {requests, retries, received_bytes, false}; }

 private:
  mutable std::mutex mutex_;
  std::optional<Target> moved_;
};

// What a request finds out that knows nothing of the file.
struct Probe {
  std::function<std::unique_ptr<File>()> make_copy = {};  // creates a temporary file
  // The last bytes are read instead of the first. It has one attempt, and needs a server that sends parts.
  bool is_of_end = false;
  Identity identity = {};
  // As much of the transfer's memory as was filled.
  std::size_t received = 0;
  // All of the file, if the server cannot send a part of it.
  std::unique_ptr<File> copy = nullptr;
};

}  // namespace tzmark
