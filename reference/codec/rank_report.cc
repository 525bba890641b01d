// See codec/rank_report.h.
#include "codec/rank_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <utility>

#include "bytes/requires.h"

namespace tzmark {
namespace {

constexpr std::uint64_t kReportMagic = 0x31'74'72'6F'70'65'72'74;

struct ReportWire {
  std::uint64_t magic, number, file_bytes, offset;
  std::uint32_t code, has_error, has_offset, text_bytes;
  Sha256Digest digest;
  std::array<char, 944> text;
};
static_assert(sizeof(ReportWire) == kReportBytes);

// A code of a newer build has no row.
ErrorCode known_code(std::uint32_t number) {
  std::size_t count = 0;
  const ErrorInfo* const rows = error_table(count);
  const bool is_known = std::any_of(
      rows, rows + count, [&](const ErrorInfo& row) { return static_cast<std::uint32_t>(row.code) == number; });
  return is_known ? static_cast<ErrorCode>(number) : ErrorCode::kReadFailed;
}

}  // namespace

void encode_report(const RankReport& report, std::span<std::byte> out) {
  TZMARK_REQUIRES(out.size() == kReportBytes);
  ReportWire wire{};
  wire.magic = kReportMagic;
  wire.number = report.number;
  wire.file_bytes = report.file_bytes;
  wire.digest = report.digest;
  if (report.error) {
    wire.has_error = 1;
    wire.code = static_cast<std::uint32_t>(report.error->code());
    wire.has_offset = report.error->offset() ? 1 : 0;
    wire.offset = report.error->offset().value_or(0);
    const std::string& text = report.error->message();
    wire.text_bytes = static_cast<std::uint32_t>(std::min(text.size(), wire.text.size()));
    std::copy_n(text.begin(), wire.text_bytes, wire.text.begin());
  }
  std::memcpy(out.data(), &wire, sizeof wire);
}

RankReport decode_report(std::span<const std::byte> bytes, std::uint64_t number) {
  TZMARK_REQUIRES(bytes.size() == kReportBytes);
  ReportWire wire;
  std::memcpy(&wire, bytes.data(), sizeof wire);
  if (wire.magic != kReportMagic || wire.number != number || wire.text_bytes > wire.text.size()) {
    throw BrokenGroup("ranks are not in step: another broadcast was received than the one expected");
  }
  RankReport report{.number = number, .file_bytes = wire.file_bytes, .digest = wire.digest};
  if (wire.has_error != 0) {
    report.error.emplace(known_code(wire.code), std::string(wire.text.data(), wire.text_bytes),
                         wire.has_offset != 0 ? std::optional(wire.offset) : std::nullopt);
  }
  return report;
}

void broadcast_together(Group& group, std::span<std::byte> memory, unsigned root) {
  try {
    group.broadcast(memory, root);
  } catch (...) {
    throw BrokenGroup(as_error(std::current_exception()).message());
  }
}

void gather_together(Group& group, std::span<std::byte> memory) {
  try {
    group.all_gather(memory);
  } catch (...) {
    throw BrokenGroup(as_error(std::current_exception()).message());
  }
}

std::vector<RankReport> exchange_reports(Group& group, const RankReport& own) {
  std::vector<std::byte> bytes(group.size() * kReportBytes);
  const auto of = [&](unsigned rank) { return std::span(bytes).subspan(rank * kReportBytes, kReportBytes); };
  encode_report(own, of(group.rank()));
  gather_together(group, bytes);
  std::vector<RankReport> reports;
  reports.reserve(group.size());
  for (unsigned rank = 0; rank < group.size(); ++rank) reports.push_back(decode_report(of(rank), own.number));
  return reports;
}

std::vector<RankReport> agree(Group& group, RankReport report, const std::exception_ptr& own) {
  if (own) report.error = as_error(own);
  std::vector<RankReport> reports = exchange_reports(group, report);
  if (own) std::rethrow_exception(own);
  for (unsigned rank = 0; rank < reports.size(); ++rank) {
    if (reports[rank].error) throw of_rank(rank, *reports[rank].error);
  }
  return reports;
}

Error as_error(const std::exception_ptr& exception) noexcept {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return {ErrorCode::kResource, "out of memory"};
  } catch (const std::exception& error) {
    return {ErrorCode::kReadFailed, error.what()};
  } catch (...) {
    return {ErrorCode::kReadFailed, "an exception of unknown type"};
  }
}

Error of_rank(unsigned rank, const Error& error) {
  return {error.code(), fmt::format("rank {}: {}", rank, error.message()), error.offset()};
}

}  // namespace tzmark
