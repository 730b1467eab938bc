//! Scheduler metadata: a tree of maps that clients and workers write and read.
//!
//! Values are kept as they came. A value that is itself a map is taken apart only when a path leads
//! into it, one level at a time, so nothing here depends on how deep a value nests.
//!
//! Answers to: Scheduler.task_metadata, get_metadata and set_metadata.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "protocol/base/key.h"
#include "protocol/base/payload.h"
#include "protocol/wire/writer.h"

namespace scheduler {

class Metadata {
 public:
  Metadata() : root_(std::make_unique<Node>()) {}

  //! Makes maps on the way; what is in the way and is no map is replaced. The path is not empty.
  void set(std::span<const protocol::KeyView> path, protocol::PayloadRef value);

  //! Writes what is there; if nothing is, answers with the first key that is missing.
  std::optional<protocol::KeyView> write(std::span<const protocol::KeyView> path,
                                         protocol::MessageWriter& out);

  //! The map kept under one name, as msgpack, with those of its values that are plain; empty if
  //! there is none.
  std::string plain_map(protocol::KeyView name);

 private:
  //! A value as it came, or, once taken apart or made by a path, a map of nodes.
  struct Node {
    protocol::PayloadRef value;  //!< null: a map of children
    std::vector<std::pair<protocol::Key, std::unique_ptr<Node>>> children;

    Node* find(protocol::KeyView key);
    //! Takes a map value apart by one level; false: it is no map.
    bool open();
  };

  std::unique_ptr<Node> root_;
};

}  // namespace scheduler
