// What the ranks of a group tell each other: a report of fixed size, which also ends each chunk that they exchange.
//
// The ranks are processes of one build on machines of one kind, so a report is copied as it lies in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tzmark/digest.h"
#include "tzmark/error.h"
#include "tzmark/group.h"

namespace tzmark {

struct RankReport {
  std::uint64_t number = 0;         // of the chunk or agreement: equal on all ranks that are in step
  std::uint64_t file_bytes = 0;     // for agreements
  Sha256Digest digest = {};         // the same
  std::optional<Error> error = {};  // a long text is cut
};

inline constexpr std::size_t kReportBytes = 1024;

// TZE-ENV-002: a broadcast failed, or ranks are not in step. The group cannot be used any more.
class BrokenGroup final : public Error {
 public:
  explicit BrokenGroup(const std::string& why) : Error(ErrorCode::kReadFailed, "the group is broken: " + why) {}
};

// REQUIRES: out has kReportBytes.
void encode_report(const RankReport& report, std::span<std::byte> out);
// Throws BrokenGroup if it is no report, or one of another number. REQUIRES: bytes has kReportBytes.
RankReport decode_report(std::span<const std::byte> bytes, std::uint64_t number);

// Collective. Gathers the report of each rank, and returns all of them. Throws BrokenGroup.
std::vector<RankReport> exchange_reports(Group& group, const RankReport& own);
// The same. Throws if one of the ranks reports an error: own on the rank itself, and on others that of the lowest rank,
// which precedes its text. Otherwise own may be null.
std::vector<RankReport> agree(Group& group, RankReport report, const std::exception_ptr& own);

// Group::broadcast and Group::all_gather, which throw BrokenGroup.
void broadcast_together(Group& group, std::span<std::byte> memory, unsigned root);
void gather_together(Group& group, std::span<std::byte> memory);

// Returns what an exception says as an Error. REQUIRES: it is not null.
Error as_error(const std::exception_ptr& exception) noexcept;
// Returns the error with the rank before its text.
Error of_rank(unsigned rank, const Error& error);

}  // namespace tzmark
