// Requests for parts of one remote file, many at a time, by libcurl's multi interface.
//
// A request that fails for a reason that may pass is repeated from the byte where it ended, within the limits of
// RemoteSettings. What arrives is compared with what was asked for: the range, its length and the identity of the file.
//
// Thread-safety: one thread at a time. The object and the memory of transfers must outlive their transfers. Connections
// stay open until the session ends.
#pragma once

#include <curl/curl.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "remote/object.h"
#include "tzmark/error.h"
#include "tzmark/io.h"

namespace tzmark {

class Session {
 public:
  // REQUIRES: Curl::instance() is available.
  explicit Session(std::shared_ptr<RemoteObject> object);
  // Abandons what is in flight.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Starts a read, whose failure sets its error. probe: of a request before the identity of the object is known; it may
  // fill less than the memory if the file is shorter.
  void start(Transfer& transfer, Probe* probe = nullptr);
  // REQUIRES: the transfer was started, and wait and poll have not returned it.
  void set_deadline(const Transfer& transfer, std::chrono::steady_clock::time_point deadline);
  // Throws what the check of io/wait_check.h throws. REQUIRES: in_flight() > 0.
  Transfer& wait();
  Transfer* poll();
  std::size_t in_flight() const { return in_flight_; }
  // Abandons all transfers: their memory is no longer used, and they never complete.
  void abandon();

 private:
  using Clock = std::chrono::steady_clock;
  enum class State : std::uint8_t { kIdle, kPausing, kRunning, kReady };
  enum class Body : std::uint8_t { kUnknown, kPart, kCopy, kDiscarded };

  struct Slot {
    Session* session = nullptr;
    CURL* easy = nullptr;
    curl_slist* fields = nullptr;
    State state = State::kIdle;

    // Of the transfer.
    Transfer* transfer = nullptr;
    Probe* probe = nullptr;
    std::size_t done = 0;
    unsigned requests = 0, failures = 0, redirects = 0;  // failures: in a row, without a byte
    std::optional<Target> moved;                         // where a redirect leads
    bool has_returned = false;                           // from a store to the target
    Clock::time_point begin, deadline, next_at;

    // Of the request.
    std::optional<Target> target;
    Answer answer;
    Body body = Body::kUnknown;
    std::size_t wanted = 0;
    std::optional<std::uint64_t> file_bytes;  // as an answer with a part says
    std::uint64_t received = 0, discarded = 0;
    std::string error_body;
    std::uint64_t copied_bytes = 0;  // of a copy, when its deadline was set
    Clock::time_point mark;          // since when too little has been received
    std::uint64_t mark_bytes = 0;
    std::exception_ptr error;  // ends the transfer
    std::string bad_answer;    // why the request is repeated
    std::array<char, CURL_ERROR_SIZE> text{};
  };

  static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* slot);
  static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* slot);
  static curl_socket_t on_socket(void* slot, curlsocktype purpose, curl_sockaddr* address);

  static bool is_of_end(const Slot& slot) { return slot.probe != nullptr && slot.probe->is_of_end; }

  Slot& free_slot();
  void send(Slot& slot);
  void set_options(Slot& slot);
  void set_access(Slot& slot);
  void add_field(Slot& slot, const std::string& field);
  void take_off(Slot& slot);
  bool take_body(Slot& slot, std::span<const std::byte> data);
  void judge(Slot& slot);
  // Returns whether it did.
  bool refuse_if_changed(Slot& slot);
  void judge_part(Slot& slot);
  void judge_whole(Slot& slot);
  std::uint64_t least_copied_bytes() const;
  void require_copy_fits(const Slot& slot, std::uint64_t bytes) const;
  void end_request(Slot& slot, CURLcode code);
  bool end_with_status(Slot& slot);
  void follow(Slot& slot);
  void refuse_status(Slot& slot);
  void retry(Slot& slot, const std::string& problem);
  void finish(Slot& slot);
  // Sets the error that ends the transfer at the end of the request: in callbacks of libcurl.
  void refuse(Slot& slot, ErrorCode code, const std::string& problem);
  // Ends the transfer with an error.
  void fail(Slot& slot, ErrorCode code, const std::string& problem);
  Error error_of(const Slot& slot, ErrorCode code, const std::string& problem) const;
  void drive();
  void check_limits(Clock::time_point now);
  std::chrono::milliseconds time_to_next(Clock::time_point now) const;

  const std::shared_ptr<RemoteObject> object_;
  CURLM* multi_ = nullptr;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::deque<Slot*> ready_;
  std::size_t in_flight_ = 0;
  std::minstd_rand random_;
  Clock::time_point driven_at_;
};

}  // namespace tzmark
