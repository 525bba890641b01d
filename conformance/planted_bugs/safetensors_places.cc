// The places of a safetensors header; see safetensors_bugs.h.
#include "planted_bugs/safetensors_bugs.h"

namespace tzmark::conformance::planted {
namespace {

using mutation::JsonItem;
using mutation::JsonValue;
using mutation::SafetensorsDraft;
using Kind = JsonValue::Kind;

bool is_metadata(const JsonItem& item) { return item.key == "\"__metadata__\""; }

// The values of a tensor that no reader needs.
bool is_ignored(const JsonItem& member) {
  return member.key != "\"dtype\"" && member.key != "\"shape\"" && member.key != "\"data_offsets\"";
}

template <typename Visit>
void for_each_tensor(SafetensorsDraft& draft, const Visit& visit) {
  for (JsonItem& item : draft.root.items) {
    if (!is_metadata(item) && item.has_colon) visit(item);
  }
}

template <typename Visit>
void for_each_value(JsonValue& value, const Visit& visit) {
  for (JsonItem& item : value.items) for_each_value(item.value, visit);
  visit(value);
}

// The values of a place, without those in them.
template <typename Visit>
void for_each_outer(SafetensorsDraft& draft, Place place, const Visit& visit) {
  if (place == Place::kRoot) visit(draft.root);
  if (place == Place::kMetadata) {
    for (JsonItem& item : draft.root.items) {
      if (is_metadata(item)) visit(item.value);
    }
  }
  for_each_tensor(draft, [&](JsonItem& tensor) {
    if (place == Place::kTensor) visit(tensor.value);
    for (JsonItem& member : tensor.value.items) {
      if (place == Place::kShape && member.key == "\"shape\"") visit(member.value);
      if (place == Place::kOffsets && member.key == "\"data_offsets\"") visit(member.value);
      if (place == Place::kIgnored && member.has_colon && is_ignored(member)) visit(member.value);
    }
  });
}

}  // namespace

std::string_view words_of(Place place) {
  switch (place) {
    case Place::kRoot:
      return "in the header";
    case Place::kTensorName:
      return "in the name of a tensor";
    case Place::kTensor:
      return "in a tensor";
    case Place::kMember:
      return "in a key of a tensor";
    case Place::kDtype:
      return "in a dtype";
    case Place::kShape:
      return "in a shape";
    case Place::kOffsets:
      return "in data_offsets";
    case Place::kMetadata:
      return "in the metadata";
    case Place::kMetadataText:
      return "in a text of the metadata";
    default:
      return "in a value that is ignored";
  }
}

void for_each_string(SafetensorsDraft& draft, Place place, const std::function<void(std::string&)>& visit) {
  const auto visit_scalar = [&](JsonValue& value) {
    if (value.scalar.starts_with('"')) visit(value.scalar);
  };
  if (place == Place::kMetadata || place == Place::kMetadataText) {
    for_each_outer(draft, Place::kMetadata, [&](JsonValue& metadata) {
      for (JsonItem& item : metadata.items) {
        if (place == Place::kMetadataText) {
          visit_scalar(item.value);
        } else if (item.has_colon) {
          visit(item.key);
        }
      }
    });
    return;
  }
  if (place == Place::kIgnored) {
    for_each_outer(draft, place, [&](JsonValue& outer) {
      for_each_value(outer, [&](JsonValue& value) {
        visit_scalar(value);
        for (JsonItem& item : value.items) {
          if (item.has_colon) visit(item.key);
        }
      });
    });
    return;
  }
  for_each_tensor(draft, [&](JsonItem& tensor) {
    if (place == Place::kTensorName) visit(tensor.key);
    for (JsonItem& member : tensor.value.items) {
      if (place == Place::kMember && member.has_colon) visit(member.key);
      if (place == Place::kDtype && member.key == "\"dtype\"") visit_scalar(member.value);
    }
  });
}

void for_each_container(SafetensorsDraft& draft, Place place, const std::function<void(JsonValue&)>& visit) {
  for_each_outer(draft, place, [&](JsonValue& outer) {
    if (place != Place::kIgnored) {
      if (outer.kind != Kind::kScalar) visit(outer);
      return;
    }
    for_each_value(outer, [&](JsonValue& value) {
      if (value.kind != Kind::kScalar) visit(value);
    });
  });
}

void for_each_scalar(SafetensorsDraft& draft, Place place,
                     const std::function<void(JsonValue&, std::size_t position)>& visit) {
  for_each_outer(draft, place, [&](JsonValue& outer) {
    if (place == Place::kIgnored) {
      for_each_value(outer, [&](JsonValue& value) {
        if (value.kind == Kind::kScalar) visit(value, 0);
      });
      return;
    }
    for (std::size_t i = 0; i < outer.items.size(); ++i) {
      if (outer.items[i].value.kind == Kind::kScalar) visit(outer.items[i].value, i);
    }
  });
}

}  // namespace tzmark::conformance::planted
