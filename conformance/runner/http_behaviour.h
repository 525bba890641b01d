// How the server of an input mode behaves: what a reader of URLs has to survive. The same file always meets the same.
//
// Thread-safety: pure functions; one HttpFaults belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runner/http_request.h"

namespace tzmark::conformance {

enum class HttpFault {
  kNone,
  kCut,              // the connection ends in the middle of the body
  kUnavailable,      // 503 with Retry-After: 0
  kTooManyRequests,  // 429
  kReset,            // the connection is reset without an answer
};

struct HttpBehaviour {
  bool has_ranges = true;     // otherwise each answer has all of the file
  bool is_in_pieces = false;  // answers arrive in pieces of odd sizes (odd_sizes.h)
  HttpFault fault = HttpFault::kNone;
  unsigned faults_per_range = 1;  // before a range is answered
  std::uint64_t seed = 0;         // of the pieces
};

// The behaviour for a file. sha256: its hexadecimal digits.
HttpBehaviour behaviour_for(std::string_view sha256, bool with_faults, std::uint64_t seed);

// "no ranges, in small pieces, bodies cut off at first"
std::string describe(const HttpBehaviour& behaviour);

// Decides which requests of one question meet the fault. A range that failed as often as it has to is answered, and
// so is each part of it: a reader may go on where a body was cut.
class HttpFaults {
 public:
  explicit HttpFaults(const HttpBehaviour& behaviour) : behaviour_(behaviour) {}

  HttpFault next(const HttpRequest& request, const HttpAnswer& answer);

 private:
  struct Failed {
    bool is_head = false;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    unsigned left = 0;  // faults to come
  };

  HttpBehaviour behaviour_;
  std::vector<Failed> failed_;
};

}  // namespace tzmark::conformance
