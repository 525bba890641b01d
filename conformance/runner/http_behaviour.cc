// How the server of an input mode behaves; see http_behaviour.h.
#include "runner/http_behaviour.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tzmark::conformance {
namespace {

// A reader pauses before it repeats a request, and its time is limited.
constexpr std::size_t kFailedRangesMax = 4;

unsigned digit_value(char digit) { return static_cast<unsigned>(digit >= 'a' ? digit - 'a' + 10 : digit - '0'); }

}  // namespace

HttpBehaviour behaviour_for(std::string_view sha256, bool with_faults, std::uint64_t seed) {
  // The first digit chooses which files are sampled.
  const unsigned how = digit_value(sha256[1]);
  HttpBehaviour behaviour{.has_ranges = how % 2 == 0, .is_in_pieces = how / 2 % 2 == 1, .seed = seed};
  if (!with_faults) return behaviour;
  constexpr std::array kFaults = {HttpFault::kCut, HttpFault::kUnavailable, HttpFault::kTooManyRequests,
                                  HttpFault::kReset};
  const unsigned which = digit_value(sha256[2]);
  behaviour.fault = kFaults[which % kFaults.size()];
  behaviour.faults_per_range = 1 + which / 4 % 2;
  return behaviour;
}

std::string describe(const HttpBehaviour& behaviour) {
  constexpr std::array<std::string_view, 5> kFaults = {"", ", bodies cut off at first", ", status 503 at first",
                                                       ", status 429 at first", ", connections reset at first"};
  return fmt::format("{}{}{}", behaviour.has_ranges ? "ranges" : "no ranges",
                     behaviour.is_in_pieces ? ", in small pieces" : "",
                     kFaults[static_cast<std::size_t>(behaviour.fault)]);
}

HttpFault HttpFaults::next(const HttpRequest& request, const HttpAnswer& answer) {
  const bool is_head = request.method == "HEAD";
  const bool has_middle = !is_head && !answer.body.empty();
  if (!answer.has_content() || (behaviour_.fault == HttpFault::kCut && !has_middle)) return HttpFault::kNone;
  const std::uint64_t end = answer.begin + std::max<std::uint64_t>(1, answer.body.size());
  const auto known = std::ranges::find_if(failed_, [&](const Failed& each) {
    return each.is_head == is_head && each.begin <= answer.begin && answer.begin < each.end;
  });
  if (known != failed_.end()) {
    if (known->left == 0) return HttpFault::kNone;
    --known->left;
    return behaviour_.fault;
  }
  if (behaviour_.fault == HttpFault::kNone || failed_.size() == kFailedRangesMax) return HttpFault::kNone;
  failed_.push_back({is_head, answer.begin, end, behaviour_.faults_per_range - 1});
  return behaviour_.fault;
}

}  // namespace tzmark::conformance
