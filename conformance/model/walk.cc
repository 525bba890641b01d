// The interpreter of the tables; see walk.h.
#include "model/walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "model/text.h"

namespace tzmark::conformance::model {
namespace {

std::uint64_t width_bytes(Type type) {
  switch (type) {
    case Type::kU8:
      return 1;
    case Type::kU16:
      return 2;
    case Type::kU32:
    case Type::kI32:
      return 4;
    case Type::kU64:
    case Type::kI64:
      return 8;
    case Type::kBytes:
    case Type::kStructure:
      break;
  }
  return 1;
}

std::string shown(const FieldRow& row, const Scope& frame, const Value& value) {
  if (row.show) return row.show(frame, value);
  if (row.type == Type::kBytes) return "";
  const std::uint64_t number = little_endian(frame.bytes(value));
  if (row.type == Type::kI32) return fmt::format("{}", static_cast<std::int32_t>(number));
  if (row.type == Type::kI64) return fmt::format("{}", static_cast<std::int64_t>(number));
  return fmt::format("{}", number);
}

// A value of one number or of several.
std::string shown_or_listed(const FieldRow& row, const Scope& frame, const Value& value) {
  if (!row.amount || row.type == Type::kBytes || row.show) return shown(row, frame, value);
  constexpr std::size_t kListedMax = 8;
  const Bytes all = frame.bytes(value);
  const std::size_t width = width_bytes(row.type);
  std::string text;
  for (std::size_t at = 0; at < all.size(); at += width) {
    if (at == kListedMax * width) return text + ", ...";
    text += fmt::format("{}{}", at == 0 ? "" : ", ", little_endian(all.subspan(at, width)));
  }
  return text.empty() ? "empty" : text;
}

// One walk through one structure.
class Walk {
 public:
  Walk(Bytes file, const Scope* outer, const std::string& label, Notes& notes, ParsedStructure& record)
      : frame_{file, &record, outer}, label_(label), notes_(&notes), record_(&record) {}

  void run() {
    record_->whole = true;
    for (const FieldRow& row : record_->structure->rows) {
      update();
      if (row.when && !row.when(frame_)) continue;
      record_->whole = row.type == Type::kStructure ? nested(row) : plain(row);
      if (!record_->whole) break;
    }
    update();
    if (record_->whole) finish();
    record_->end = at_;
  }

  void within(std::uint64_t begin, std::uint64_t end) {
    at_ = begin;
    end_ = end;
  }

 private:
  void update() { frame_.rest = end_ - at_; }

  bool overrun(const FieldRow& row) {
    notes_->defect(record_->structure->overrun_rule, at_,
                   fmt::format("{}: {} runs past byte {}, where its structure ends", label_, row.name, end_));
    return false;
  }

  std::uint64_t number(const FieldRow& row, std::uint64_t at, std::uint64_t width) const {
    return notes_->number(label_, row.name, frame_.file.subspan(at, width));
  }

  bool plain(const FieldRow& row) {
    const std::uint64_t width = width_bytes(row.type);
    const std::uint64_t amount = row.amount ? row.amount(frame_) : 1;
    if (amount > frame_.rest / width) return overrun(row);
    Value value{row.name, at_, amount * width};
    const bool list = row.amount && row.type != Type::kBytes;
    if (list) {
      for (std::uint64_t i = 0; i < amount; ++i) value.numbers.push_back(number(row, at_ + i * width, width));
    } else if (row.type != Type::kBytes) {
      value.number = number(row, at_, width);
    }
    record_->values.push_back(value);
    if (notes_->fields() && value.size > 0) {
      notes_->fields()->push_back(
          {at_, value.size, label_, std::string(row.name), list ? "" : shown(row, frame_, value), list ? amount : 0});
    }
    for (const FieldCheck& check : row.checks) {
      if (check.right(frame_)) continue;
      std::string wanted(check.says);
      if (check.as_outer) wanted += ": " + shown_or_listed(row, frame_, frame_.outer->value(row.name));
      notes_->defect(
          check.rule, at_,
          fmt::format("{}: {} is {} and should be {}", label_, row.name, shown_or_listed(row, frame_, value), wanted));
    }
    at_ += value.size;
    return true;
  }

  bool nested(const FieldRow& row) {
    const std::uint64_t amount = row.amount ? row.amount(frame_) : 1;
    for (std::uint64_t i = 0; i < amount; ++i) {
      update();
      const std::uint64_t room = row.room ? row.room(frame_) : frame_.rest;
      if (room > frame_.rest) return overrun(row);
      std::string label = label_;
      if (!row.structure->name.empty()) label += fmt::format(", {}", row.structure->name);
      if (row.amount && !row.structure->name.empty()) label += fmt::format(" {}", i);
      ParsedStructure child = walk(frame_.file, *row.structure, at_, at_ + room, &frame_, label, *notes_);
      const bool whole = child.whole;
      at_ = row.room ? at_ + room : child.end;
      record_->children.push_back(std::move(child));
      // Where its room is not known, nothing tells where the next field begins.
      if (!whole && !row.room) return false;
    }
    return true;
  }

  void finish() {
    const Structure& structure = *record_->structure;
    if (frame_.rest > 0 && !structure.remainder_rule.empty()) {
      notes_->defect(structure.remainder_rule, at_,
                     fmt::format("{}: {} bytes up to byte {} belong to no field", label_, frame_.rest, end_));
    }
    for (const FieldCheck& check : structure.checks) {
      if (!check.right(frame_)) notes_->defect(check.rule, record_->begin, fmt::format("{}: {}", label_, check.says));
    }
  }

  Scope frame_;
  const std::string& label_;
  Notes* notes_;
  ParsedStructure* record_;
  std::uint64_t at_ = 0;
  std::uint64_t end_ = 0;
};

}  // namespace

const Value* ParsedStructure::find(std::string_view name) const {
  const auto found = std::find_if(values.rbegin(), values.rend(), [&](const Value& v) { return v.name == name; });
  return found == values.rend() ? nullptr : &*found;
}

bool Scope::has(std::string_view name) const { return record->find(name) || (outer && outer->has(name)); }

const Value& Scope::value(std::string_view name) const {
  if (const Value* own = record->find(name)) return *own;
  if (!outer) throw std::logic_error(fmt::format("the tables have no field {}", name));
  return outer->value(name);
}

ParsedStructure walk(Bytes file, const Structure& structure, std::uint64_t begin, std::uint64_t end, const Scope* outer,
                     const std::string& label, Notes& notes) {
  ParsedStructure record;
  record.structure = &structure;
  record.begin = begin;
  record.values.reserve(structure.rows.size());
  Walk steps(file, outer, label, notes, record);
  steps.within(begin, end);
  steps.run();
  return record;
}

}  // namespace tzmark::conformance::model
