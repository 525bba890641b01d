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

Content content_of(const FieldRow& row, const Scope& frame, const Value& value) {
  if (row.content) return row.content(frame, value);
  if (row.type == Type::kBytes) return std::string(text_of(frame.bytes(value)));
  if (row.amount) return value.numbers;
  if (row.type == Type::kI32) return std::int64_t{static_cast<std::int32_t>(value.number)};
  if (row.type == Type::kI64) return static_cast<std::int64_t>(value.number);
  return value.number;
}

// One walk through one structure.
class Walk {
 public:
  Walk(Bytes file, const Scope* outer, const StructureId& id, Notes& notes, ParsedStructure& record)
      : frame_{file, &record, outer}, id_(id), notes_(&notes), record_(&record) {}

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
    notes_->defect({.rule = std::string(record_->structure->overrun_rule),
                    .offset = at_,
                    .clause = Clause::kCut,
                    .structure = id_,
                    .field = row.name,
                    .wanted = end_});
    return false;
  }

  std::uint64_t number(const FieldRow& row, std::uint64_t at, std::uint64_t width) const {
    return notes_->number(id_, row.name, frame_.file.subspan(at, width));
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
      notes_->fields()->push_back({at_, value.size, id_.label(), std::string(row.name),
                                   list ? "" : shown(row, frame_, value), list ? amount : 0});
    }
    for (const FieldCheck& check : row.checks) {
      if (check.right(frame_)) continue;
      notes_->defect({.rule = std::string(check.rule),
                      .offset = at_,
                      .clause = check.as_outer ? Clause::kIndexValue : Clause::kValue,
                      .structure = id_,
                      .field = row.name,
                      .got = content_of(row, frame_, value),
                      .wanted = check.as_outer ? content_of(row, frame_, frame_.outer->value(row.name))
                                               : Content(Words{std::string(check.wanted)})});
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
      StructureId id = id_;
      if (!row.structure->name.empty()) {
        id.item = row.structure->name;
        id.number = i;
      }
      ParsedStructure child = walk(frame_.file, *row.structure, at_, at_ + room, &frame_, id, *notes_);
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
      notes_->defect({.rule = std::string(structure.remainder_rule),
                      .offset = at_,
                      .clause = Clause::kRest,
                      .structure = id_,
                      .got = frame_.rest});
    }
    for (const FieldCheck& check : structure.checks) {
      if (check.right(frame_)) continue;
      notes_->defect({.rule = std::string(check.rule),
                      .offset = record_->begin,
                      .structure = id_,
                      .wanted = Words{std::string(check.wanted)}});
    }
  }

  Scope frame_;
  const StructureId id_;
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
                     const StructureId& id, Notes& notes) {
  ParsedStructure record;
  record.structure = &structure;
  record.begin = begin;
  record.values.reserve(structure.rows.size());
  Walk steps(file, outer, id, notes, record);
  steps.within(begin, end);
  steps.run();
  return record;
}

}  // namespace tzmark::conformance::model
