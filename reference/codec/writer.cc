// Writing whole files.
#include "tzmark/writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "codec/undo_journal.h"
#include "codec/write_plan.h"
#include "codec/write_records.h"
#include "os/atomic_file.h"
#include "os/name_changes.h"
#include "os/names_lock.h"
#include "os/replaced_source.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

// Renames the head last, since it is useless without its data. Between the two renames the old data has a temporary
// name: FORMAT.md, appendix A, says how to recover from a kill at that moment.
bool commit_pair(const std::shared_ptr<const Directory>& directory, const NamesWait& wait,
                 const ReplacedSource& replaced, AtomicFile& head, AtomicFile& data) {
  data.finish();
  head.finish();
  const std::array finished = {&data, &head};
  const auto until_both_have_their_names = NamesLock::take_or_keep(directory, wait, finished);
  const Descriptor until_it_is_replaced = replaced.lock_unchanged(wait, finished);
  return change_names(directory, [&](NameChanges& changes) {
    changes.place(data);
    changes.sync();
    changes.commit(head);
  });
}

}  // namespace

Layout lowest_layout(const TensorTable& tensors, bool encrypted, std::string* reason) {
  Layout lowest = Layout::kV1;
  const auto raise = [&](bool LayoutTraits::*able, const auto& why) {
    const Layout needed = std::ranges::find(kLayoutTraits, true, able)->layout;
    if (needed <= lowest) return;
    lowest = needed;
    if (reason != nullptr) *reason = why();
  };
  if (encrypted) raise(&LayoutTraits::may_be_encrypted, [] { return std::string("encryption requires"); });
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo tensor = tensors[i];
    if (tensor.dtype.opaque) {
      raise(&LayoutTraits::holds_opaque_dtypes, [&] {
        return fmt::format("'{}' is of dtype {}, which requires", display_path(tensor.path()), tensor.dtype.name);
      });
    }
    if (tensor.meta()) {
      raise(&LayoutTraits::holds_meta_tensors,
            [&] { return fmt::format("'{}' is a meta tensor, which requires", display_path(tensor.path())); });
    }
    if (tensor.wide_dimensions) {
      raise(&LayoutTraits::has_entry_versions, [&] {
        return fmt::format("'{}' has a dimension of 2^32 or more, which requires", display_path(tensor.path()));
      });
    }
  }
  return lowest;
}

TensorTable writable_table(const Reader& reader) {
  std::vector<std::uint16_t> module_indices(reader.tensors().size());
  reader.check_headers([&](std::size_t i, const TensorHeader& header, std::span<const std::byte>) {
    module_indices[i] = header.module_index;
  });
  TensorTable table;
  table.reserve_like(reader.tensors());
  for (std::size_t i = 0; i < module_indices.size(); ++i) {
    const TensorInfo tensor = reader.tensors()[i];
    table.add(tensor.path(), tensor.kind, tensor.dtype, tensor.shape, tensor.meta(), module_indices[i]);
  }
  return table;
}

WriteResult write_tensors(File& file, const TensorTable& tensors, const TensorSource& source,
                          const WriteOptions& options, File* data_file) {
  const WritePlan plan(tensors, options);
  if (plan.has_detached_data() != (data_file != nullptr))
    throw Error(ErrorCode::kUsage, "detached data needs a second file, and only detached data does");
  File& data = data_file != nullptr ? *data_file : file;
  if (!plan.has_detached_data()) file.reserve(plan.file_bytes());
  plan.write_frame(file, data);
  write_records(file, data, plan, source, options);
  return {plan.layout(), plan.file_bytes()};
}

WriteResult write_file(const std::string& file_name, const TensorTable& tensors, const TensorSource& source,
                       const WriteOptions& options) {
  require_no_undo_journal(file_name);
  const auto directory = directory_for(file_name, options.durability);
  AtomicFileIn output(directory, file_name, options.io_path, options.existing);
  std::vector<std::string> outputs = {name_in_directory(file_name)};
  std::optional<AtomicFileIn> data_output;
  if (options.detached_data) {
    outputs.push_back(detached_data_file_name(outputs.front()));
    data_output.emplace(directory, detached_data_file_name(file_name), options.io_path, options.existing,
                        std::vector{outputs.front()});
    if (!NameChanges::can_replace(*data_output, output)) {
      throw Error(ErrorCode::kUnavailable,
                  "the file system can neither exchange two names nor link files, so a failure could lose the old "
                  "data file: remove it first, or write to another name");
    }
  }
  const ReplacedSource replaced(directory, outputs, source.files());
  WriteResult result =
      write_tensors(output.file(), tensors, source, options, data_output ? &data_output->file() : nullptr);
  result.names_durable = data_output ? commit_pair(directory, options.names_wait, replaced, output, *data_output)
                                     : replaced.commit(output, options.names_wait);
  return result;
}

std::string detached_data_file_name(const std::string& head_file_name) { return head_file_name + ".data"; }

}  // namespace tzmark
