// Sentences about defects; see defect.h.
#include "model/defect.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/text.h"

namespace tzmark::conformance::model {
namespace {

// What a clause says, with the names of members of the defect in braces.
std::string_view pattern_of(Clause clause) {
  switch (clause) {
    case Clause::kStated:
      return "{wanted}";
    case Clause::kValue:
      return "{field} is {got} and should be {wanted}";
    case Clause::kIndexValue:
      return "{field} is {got} and should be as in the index: {wanted}";
    case Clause::kNominalSize:
      return "{field} is {got}, and shape and dtype give {wanted} bytes";
    case Clause::kHeaderEnd:
      return "{field} is {got}, and the header ends at byte {wanted}";
    case Clause::kRecordEnd:
      return "{field} is {got}, and the record before ends at byte {wanted}";
    case Clause::kCut:
      return "{field} runs past byte {wanted}, where its structure ends";
    case Clause::kLengthCut:
      return "its {got} bytes run past byte {wanted}";
    case Clause::kRest:
      return "{got} bytes belong to no field";
    case Clause::kNoHeaderPlace:
      return "{field} is {got}, where no header can be";
    case Clause::kOutside:
      return "{field} and data_length are {got}, and the data is not inside the file";
    case Clause::kOverlap:
      return "its {field} leads to byte {got}, which is another's";
    case Clause::kNotUtf8:
      return "{field} {got} is not UTF-8";
    case Clause::kNoArray:
      return "{field} {got}: what follows byte 1E is no JSON array";
    case Clause::kNoElement:
      return "{field} {got}: the array holds something that is neither a string nor a position in a list";
    case Clause::kNewline:
      return "{field} {got}: the array holds a newline byte";
    case Clause::kEmptyPath:
      return "{field} {got}: the array is empty";
    case Clause::kPathKind:
      return "{field} {got}: only tensors of kind 2 have structured names";
    case Clause::kSamePath:
      return "its path is that of index entry {got}";
    case Clause::kPathInside:
      return "its path begins with that of index entry {got}";
    case Clause::kPathMixed:
      return "its path has a string where there is a position in that of index entry {got}, or the reverse";
    case Clause::kNoType:
      return "{field} {got} is no type";
    case Clause::kNoByteOrder:
      return "{field} {got} has no byte order, and its elements have several bytes";
    case Clause::kOpaqueHead:
      return "{field} {got} has a name, so it should begin with <V or |V and a size";
    case Clause::kOpaqueName:
      return "{field} {got} should have one NUL byte and a name after it";
    case Clause::kUnknownName:
      return "{field} {got}: the name after the NUL byte is none of torch's opaque types";
    case Clause::kElementSize:
      return "{field} {got}: elements of that type have {wanted} bytes";
    case Clause::kDerivation:
      return "opslimit and memlimit are {got}, beyond the limits of {wanted}";
    case Clause::kMac:
      return "the MAC of the message at byte {got} of its data is wrong";
    case Clause::kWriterLayout:
      return "the layout is {got}, and the content needs {wanted}";
    case Clause::kHigherLayout:
      return "the layout is {got}, and the content needs {wanted}; right only if it was asked for";
    case Clause::kUsedBefore:
      return "the {field} served in {got} already";
    case Clause::kTrailing:
      return "{got} bytes follow the terminator, where the file should end";
    case Clause::kEmptyTensor:
      return "it has no data, and its {field} leads to byte {got} instead of one in the range {wanted}";
    case Clause::kEmptyTensorInSegment:
      return "it has no data, and its {field} leads to byte {got} instead of one in the range {wanted} at a multiple "
             "of 8 of the data segment";
  }
  return "";
}

struct Shown {
  std::string operator()(std::monostate) const { return "nothing"; }
  std::string operator()(std::uint64_t number) const { return fmt::format("{}", number); }
  std::string operator()(std::int64_t number) const { return fmt::format("{}", number); }
  std::string operator()(const Numbers& numbers) const {
    constexpr std::size_t kListedMax = 8;
    if (numbers.empty()) return "empty";
    const auto end = numbers.begin() + static_cast<std::ptrdiff_t>(std::min(numbers.size(), kListedMax));
    return fmt::format("{}{}", fmt::join(numbers.begin(), end, ", "), numbers.size() > kListedMax ? ", ..." : "");
  }
  std::string operator()(const std::string& bytes) const { return in_quotes(bytes); }
  std::string operator()(const Words& words) const { return words.text; }
};

}  // namespace

std::string StructureId::label() const {
  std::string text(name);
  if (tensor) text += fmt::format(" {}", *tensor);
  if (!item.empty()) text += fmt::format(", {} {}", item, number);
  return text;
}

std::string StructureId::kind() const { return item.empty() ? std::string(name) : fmt::format("{}, {}", name, item); }

Numbers numbers_of(const Content& content) {
  if (const auto* numbers = std::get_if<Numbers>(&content)) return *numbers;
  if (const auto* number = std::get_if<std::uint64_t>(&content)) return {*number};
  if (const auto* number = std::get_if<std::int64_t>(&content)) return {static_cast<std::uint64_t>(*number)};
  return {};
}

std::string sentence_of(const Defect& defect) {
  const std::string text = fmt::format(fmt::runtime(pattern_of(defect.clause)), fmt::arg("field", defect.field),
                                       fmt::arg("got", std::visit(Shown{}, defect.got)),
                                       fmt::arg("wanted", std::visit(Shown{}, defect.wanted)));
  return defect.structure.name.empty() ? text : fmt::format("{}: {}", defect.structure.label(), text);
}

bool refuses_decode(const Defect& defect) {
  return defect.kind == Defect::Kind::kStructure || defect.kind == Defect::Kind::kAuthentication;
}

bool refuses_verify(const Defect& defect) { return defect.kind != Defect::Kind::kWriter; }

}  // namespace tzmark::conformance::model
