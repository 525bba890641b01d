// Writes headers and data of all tensors of a plan; the frame around them is the plan's own affair.
#pragma once

#include "codec/write_plan.h"
#include "tzmark/io.h"
#include "tzmark/writer.h"

namespace tzmark {

// data_file: of a split pair; else the same as file.
void write_records(File& file, File& data_file, const WritePlan& plan, const TensorSource& source,
                   const WriteOptions& options);

}  // namespace tzmark
