// A defect that the model finds in a case, and what a reader with a weak check would know about it: the tensor, the
// item of a list, the bytes, and the questions before.
//
// Thread-safety: values; an event refers to its subject and its defect.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/corpus_files.h"
#include "model/model.h"

namespace tzmark::conformance::planted {

// What a process that serves has accepted, by the number of the question.
class History {
 public:
  void accepted(const std::string& key, std::size_t question) { first_.emplace(key, question); }
  bool knows(const std::string& key, std::size_t question) const {
    const auto found = first_.find(key);
    return found != first_.end() && found->second < question;
  }

 private:
  std::map<std::string, std::size_t> first_;
};

// A case, and what a complete check finds in it.
class Subject {
 public:
  Subject(model::CorpusCase corpus_case, std::size_t question);

  model::CorpusCase item;
  std::vector<std::byte> bytes;
  model::Description description;
  std::size_t question;

  bool encrypted() const;
  std::uint64_t tensor_count() const;
  std::string file_header() const;

  // The bytes of a field; empty if the complete check did not reach it.
  std::string text(const std::string& structure, const std::string& name) const;
  std::optional<std::uint64_t> number(const std::string& structure, const std::string& name) const;

  // The fields of that name in structures whose label begins so, by offset.
  std::vector<const model::Field*> all(std::string_view structure, std::string_view name) const;
};

using model::Numbers;

std::uint64_t little_endian(std::string_view bytes);

struct Event {
  const Subject& subject;
  const History& history;
  const model::Defect& defect;
  std::string_view layout;

  std::optional<std::size_t> tensor() const { return defect.structure.tensor; }

  // The other tensor of a defect of two paths.
  std::optional<std::size_t> other() const;

  // Which of its tensor's hashes, crypt chunks or messages the defect is about, and how many there are.
  std::optional<std::pair<std::size_t, std::size_t>> item() const;

  std::string in_index(const std::string& name) const;
  std::string in_header(const std::string& name) const;

  // What it has got and what it should have, as far as these are numbers, and zeros up to two of them.
  Numbers numbers() const;

  // The bytes that it has got; empty if these are numbers.
  std::string_view text() const;

  // The bytes from the defect on.
  std::string bytes_there() const;
};

}  // namespace tzmark::conformance::planted
