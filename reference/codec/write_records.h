// Writes the headers and data of all tensors of a plan. WritePlan writes everything else.
#pragma once

#include "codec/write_plan.h"
#include "tzmark/io.h"
#include "tzmark/writer.h"

namespace tzmark {

// data_file: for detached data; otherwise the same as file.
void write_records(File& file, File& data_file, const WritePlan& plan, const TensorSource& source,
                   const WriteOptions& options);

}  // namespace tzmark
