// The formats whose files the suite judges: each is a model, a corpus, and a row here.
//
// Thread-safety: pure functions; rows are constant.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "model/model.h"

namespace tzmark::conformance {

struct FileFormat {
  std::string_view name;
  std::string_view suffix;    // of the names of its files
  std::string_view corpus;    // the directory of its cases, below the prefix of the installation
  std::string_view document;  // that states its rules
  // Of all its files in the corpus, where that is one; empty: model/tables.h lists its layouts.
  std::string_view only_layout;
  // The layout of its models of several files, and what ends the name of an index of these; empty if it has none.
  std::string_view sharded_layout;
  std::string_view index_suffix;
  std::string_view first_rule;  // that a file breaks which is none of the format at all
  bool writer_orders;           // whether a writer may write tensors in any order
  model::Description (*describe)(model::Bytes file, const model::Secret& secret, const std::set<std::string>& without);
  model::Outline (*describe_structure)(model::Bytes file, const std::set<std::string>& without);
};

// "tensorizer, safetensors"
std::string format_names();

// Throws UsageError for a name that no format has.
const FileFormat& format_of_name(std::string_view name);

// layout: of a case. One that no format has is the first format's.
const FileFormat& format_of_layout(std::string_view layout);

// Whether it is that of models of several files.
bool is_sharded_layout(std::string_view layout);

// What ends the name of the file that a reader opens.
std::string_view suffix_of_layout(std::string_view layout);

// Whether this is the name of an index of shards, whose content is like that of other JSON.
bool is_index_name(std::string_view name);

// By the name of an index; else by what the file begins with; where that is like no format, by its name.
const FileFormat& format_of_file(model::Bytes file, std::string_view name);

// What adapters may say in reads.layouts and writes.layouts: the layouts of all formats.
std::set<std::string> all_layouts();

}  // namespace tzmark::conformance
