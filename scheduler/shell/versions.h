//! Versions of Python packages, and the warning when they differ.
//!
//! The scheduler has no packages of its own: it reports those of its graph process, which opens
//! the clients' graphs and so is what must match. Until that has said hello nothing is compared.
//!
//! Answers to: distributed/versions.py.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/wire/document.h"

namespace scheduler {

//! Package -> version, none if it is not installed; as in `versions["packages"]`.
using Packages = std::map<std::string, std::optional<std::string>>;

//! The `packages` of a versions map; nothing if there is no such map.
std::optional<Packages> parse_packages(protocol::Value versions);

//! The text of stock's warning, or nothing if all agree. A missing side does not take part.
std::string mismatch_warning(const std::optional<Packages>& scheduler,
                             const std::vector<const Packages*>& workers,
                             const std::optional<Packages>& source, std::string source_name);

}  // namespace scheduler
