// training_state.json.
#include <cmath>

#include "checkpoint/json.h"
#include "checkpoint/records.h"

namespace tzmark::checkpoint {

std::string serialize_state(const TrainingState& state) {
  if (!std::isfinite(state.learning_rate)) {
    throw Error(ErrorCode::kUsage, "JSON has no number for a learning rate that is not finite");
  }
  return serialize({{"version", state.version},
                    {"step", state.step},
                    {"epoch", state.epoch},
                    {"learning_rate", state.learning_rate},
                    {"metadata", state.metadata}});
}

TrainingState parse_state(std::string_view text) {
  constexpr ErrorCode kCode = ErrorCode::kCheckpointState;
  return with_json(text, kCode, [](const Json& json) {
    TrainingState state;
    state.step = unsigned_member<std::uint64_t>(json, "step", kCode);
    if (json.contains("version")) state.version = unsigned_member<std::uint32_t>(json, "version", kCode);
    if (json.contains("epoch")) state.epoch = unsigned_member<std::uint64_t>(json, "epoch", kCode);
    if (json.contains("learning_rate")) {
      if (!json["learning_rate"].is_number()) throw Error(kCode, "learning_rate is not a number");
      state.learning_rate = json["learning_rate"].get<double>();
    }
    if (json.contains("metadata")) state.metadata = container_member<decltype(state.metadata)>(json, "metadata", kCode);
    return state;
  });
}

}  // namespace tzmark::checkpoint
