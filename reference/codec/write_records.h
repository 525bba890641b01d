// Writes the headers and data of tensors of a plan. WritePlan writes everything else.
#pragma once

#include <cstddef>
#include <memory>

#include "codec/write_plan.h"
#include "tzmark/io.h"
#include "tzmark/writer.h"

namespace tzmark {

// Writes consecutive tensors of a plan. For one thread at a time.
class RecordWriter {
 public:
  virtual ~RecordWriter() = default;
  // Writes what fills pages, and sometimes more. Called once.
  virtual void write_pages() = 0;
  // Writes the rest. Called once, after write_pages, and where processes write to one file, after that of all of them:
  // see codec/late_writes.h.
  virtual void write_rest() = 0;
};

// Keeps references to its arguments. data_file: for detached data; otherwise the same as file.
std::unique_ptr<RecordWriter> make_record_writer(File& file, File& data_file, const WritePlan& plan,
                                                 const TensorSource& source, const WriteOptions& options,
                                                 std::size_t first, std::size_t end);
// Writes all tensors of the plan.
void write_records(File& file, File& data_file, const WritePlan& plan, const TensorSource& source,
                   const WriteOptions& options);

}  // namespace tzmark
