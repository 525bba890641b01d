// The error table and the text of an error.
#include "tzmark/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "bytes/utf8.h"

namespace tzmark {
namespace {

constexpr std::array kTable = {
#define TZMARK_ROW(number, name, cls, rule, text) ErrorInfo{ErrorCode::name, ErrorClass::cls, rule, text},
    TZMARK_ERROR_TABLE(TZMARK_ROW)
#undef TZMARK_ROW
};

static_assert(std::ranges::is_sorted(kTable, {}, &ErrorInfo::code), "the table is searched by number");

}  // namespace

const ErrorInfo& error_info(ErrorCode code) noexcept {
  return *std::ranges::lower_bound(kTable, code, {}, &ErrorInfo::code);
}

const ErrorInfo* error_table(std::size_t& count) noexcept {
  count = kTable.size();
  return kTable.data();
}

Error::Error(ErrorCode code, std::string detail, std::optional<std::uint64_t> offset) : code_(code), offset_(offset) {
  // Messages may contain names and dtypes of a hostile file, but must stay one line of readable length.
  constexpr std::size_t kMessageBytesMax = 500;
  message_ = detail.empty() ? std::string(error_info(code).text) : printable(detail.substr(0, kMessageBytesMax));
  what_ = offset_ ? fmt::format("error {} at byte {}: {}", rule(), *offset_, message_)
                  : fmt::format("error {}: {}", rule(), message_);
}

}  // namespace tzmark
