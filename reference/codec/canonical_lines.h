// The frame of canonical JSON, which .tensors and safetensors files share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tzmark {

// Returns the members in head, then "tensors": one line per tensor.
inline std::string canonical_document(std::string_view head, const std::vector<std::string>& tensor_lines) {
  std::string text = "{" + std::string(head) + ",\n \"tensors\": [";
  for (std::size_t i = 0; i < tensor_lines.size(); ++i) text += (i == 0 ? "\n  " : ",\n  ") + tensor_lines[i];
  return text + "\n ]}\n";
}

}  // namespace tzmark
