//! `rask_holders(name, shape)`: which workers hold the blocks of one array. An operation of ours.
//!
//! Says what `who_has` says of the keys (name, 0, …), (name, 1, …) and so on, in C order, but no key
//! travels: of many thousands of blocks the answer is the few different sets of holders, and the
//! number of its set for each block (32 bits each, little-endian).
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "protocol/base/key.h"
#include "protocol/base/key_token.h"
#include "scheduler/core/state.h"
#include "scheduler/shell/rpc.h"
#include "scheduler/shell/server.h"

namespace scheduler {

using protocol::MessageWriter;

namespace {

constexpr std::size_t kMostAxes = 64;  //!< NumPy's own limit

//! The places of a grid of blocks in C order, as keys.
class Blocks {
 public:
  Blocks(std::string_view name, std::vector<std::uint64_t> shape)
      : shape_(std::move(shape)), place_(shape_.size()) {
    protocol::append_array_header(head_, static_cast<std::uint32_t>(1 + shape_.size()));
    head_ += protocol::string_key(name).bytes;
  }

  //! Of the block whose turn it is; borrowed until the next call.
  protocol::KeyView key() {
    key_.assign(head_);
    for (const std::uint64_t place : place_) protocol::append_integer(key_, place, false);
    return protocol::KeyView{key_};
  }
  void next() {
    for (std::size_t axis = shape_.size(); axis-- > 0;) {
      if (++place_[axis] < shape_[axis]) return;
      place_[axis] = 0;
    }
  }

 private:
  std::vector<std::uint64_t> shape_, place_;
  std::string head_, key_;
};

//! Lengths of the axes, or nothing if there are more blocks than `most`: whoever asks has them all.
std::optional<std::vector<std::uint64_t>> read_shape(Value value, std::uint64_t most,
                                                     std::uint64_t& blocks) {
  std::vector<std::uint64_t> shape;
  blocks = 1;
  for (const Value element : value.elements()) {
    const auto length = element.as_int();
    if (!length || *length < 0 || shape.size() == kMostAxes) return std::nullopt;
    shape.push_back(static_cast<std::uint64_t>(*length));
    if (*length > 0 && blocks > most / shape.back()) return std::nullopt;
    blocks *= shape.back();
  }
  return shape;
}

//! The different sets of holders, numbered as they are met.
class HolderSets {
 public:
  std::uint32_t number(const Task* task) {
    std::vector<std::uint32_t> workers;
    if (task != nullptr) {
      for (const Replica& replica : task->who_has) workers.push_back(replica.worker.value);
    }
    if (!sets_.empty() && workers == sets_[last_]) return last_;  // neighbours often lie together
    const auto [found, made] =
        numbers_.try_emplace(workers, static_cast<std::uint32_t>(sets_.size()));
    if (made) sets_.push_back(std::move(workers));
    return last_ = found->second;
  }

  void write(MessageWriter& out, const Core& core) const {
    out.array(static_cast<std::uint32_t>(sets_.size()));
    for (const std::vector<std::uint32_t>& workers : sets_) {
      out.array(static_cast<std::uint32_t>(workers.size()));
      for (const std::uint32_t worker : workers) out.str(core.worker(WorkerId(worker)).address);
    }
  }

 private:
  std::map<std::vector<std::uint32_t>, std::uint32_t> numbers_;
  std::vector<std::vector<std::uint32_t>> sets_;
  std::uint32_t last_ = 0;
};

}  // namespace

Reply rpc_rask_holders(Server& server, const Request& request) {
  const auto name = request.get("name").as_str();
  if (!name) return Reply::raise(protocol::Error{protocol::Fault::bad_type, "name"});
  const Core& core = server.core;
  std::uint64_t count = 0;
  auto shape = read_shape(request.get("shape"), core.state().tasks.size(), count);
  if (!shape) return Reply::raise({"ValueError", "rask_holders: there are no such blocks"});
  Blocks blocks(*name, std::move(*shape));
  HolderSets sets;
  std::string numbers;
  numbers.reserve(4 * count);
  for (std::uint64_t i = 0; i < count; ++i, blocks.next()) {
    const auto id = core.find(blocks.key());
    std::uint32_t number = sets.number(id ? &core.task(*id) : nullptr);
    for (int byte = 0; byte < 4; ++byte, number >>= 8) {
      numbers.push_back(static_cast<char>(number & 0xff));
    }
  }
  return Reply::written([&](MessageWriter& out) {
    out.map(2);
    out.field("sets");
    sets.write(out, core);
    out.field("of");
    out.bin(numbers);
  });
}

}  // namespace scheduler
