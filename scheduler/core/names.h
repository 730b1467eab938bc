//! Hash maps from names that can be asked with a string_view.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/hash/hash.h>

#include <functional>
#include <string>
#include <string_view>

namespace scheduler {

struct NameHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view name) const {
    return absl::Hash<std::string_view>{}(name);
  }
};

template <class T>
using NameMap = absl::flat_hash_map<std::string, T, NameHash, std::equal_to<>>;

}  // namespace scheduler
