//! Feeds recorded events to the worker's core and writes down what it does.
//!
//! stdin: a msgpack stream of sequences [config, [event, …]]; stdout: for each sequence one answer
//! per event [instructions, complaints, digest or nil]. Events and instructions are maps and arrays
//! with stock's names (see pytests/worker_core/encode.py), so that pytests can put Python's own
//! WorkerState beside it. Complaints are broken invariants and values dropped twice or never.
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <msgpack.hpp>

#include "tests/worker/digest.h"
#include "worker/core/core.h"

namespace {

using Object = msgpack::object;
using Packer = msgpack::packer<msgpack::sbuffer>;
using worker::Core;
using worker::Key;
using worker::KeyView;
using worker::TaskId;
using worker::ValueId;

const Object& field(const Object& map, std::string_view name) {
  for (std::uint32_t i = 0; i < map.via.map.size; ++i) {
    const auto& entry = map.via.map.ptr[i];
    if (entry.key.as<std::string_view>() == name) return entry.val;
  }
  std::cerr << "no field " << name << "\n";
  std::exit(2);
}

//! Owns what the views of one event point to.
class Reader {
 public:
  explicit Reader(const Object& event) : event_(event) {}

  KeyView key(const Object& object) {
    keys_.push_back(protocol::string_key(object.as<std::string_view>()));
    return keys_.back();
  }
  KeyView key() { return key(field(event_, "key")); }

  std::span<const KeyView> keys() {
    for (const Object& object : array(field(event_, "keys"))) key_views_.push_back(key(object));
    return key_views_;
  }

  //! [[key, nbytes, [address, …]], …]
  std::span<const worker::Replica> replicas() {
    for (const Object& object : array(field(event_, "replicas"))) {
      const auto parts = array(object);
      auto& addresses = addresses_.emplace_back();
      for (const Object& address : array(parts[2])) {
        addresses.push_back(address.as<std::string_view>());
      }
      replicas_.push_back({key(parts[0]), parts[1].as<std::uint64_t>(), addresses});
    }
    return replicas_;
  }

  std::span<const worker::Resource> resources() {
    const Object& map = field(event_, "resources");
    for (std::uint32_t i = 0; i < map.via.map.size; ++i) {
      const auto& entry = map.via.map.ptr[i];
      resources_.emplace_back(entry.key.as<std::string_view>(), entry.val.as<double>());
    }
    return resources_;
  }

  worker::Priority priority() {
    std::vector<double> parts;
    for (const Object& part : array(field(event_, "priority"))) parts.push_back(part.as<double>());
    return worker::Priority(parts);
  }

  static std::span<const Object> array(const Object& object) {
    return {object.via.array.ptr, object.via.array.size};
  }

 private:
  const Object& event_;
  std::deque<Key> keys_;
  std::vector<KeyView> key_views_;
  std::deque<std::vector<std::string_view>> addresses_;
  std::vector<worker::Replica> replicas_;
  std::vector<worker::Resource> resources_;
};

class Driver {
 public:
  Driver(worker::Config config, Packer& out) : core_(std::move(config)), out_(out) {}

  void run(const Object& event) {
    Reader reader(event);
    std::vector<worker::Gathered> gathered;
    std::vector<worker::Scattered> scattered;
    const worker::Event e = read(event, reader, gathered, scattered);
    worker::Actions actions;
    core_.step(e, "driver", protocol::Now{}, actions);
    std::vector<std::string> complaints = core_.validate();
    settle_values(actions, complaints);
    write(actions, complaints, field(event, "digest").as<bool>());
  }

 private:
  worker::Event read(const Object& event, Reader& reader, std::vector<worker::Gathered>& gathered,
                     std::vector<worker::Scattered>& scattered) {
    const auto op = field(event, "op").as<std::string_view>();
    if (op == "compute-task") {
      return worker::ComputeTask{.key = reader.key(),
                                 .run = run_id(event),
                                 .priority = reader.priority(),
                                 .dependencies = reader.replicas(),
                                 .resources = reader.resources(),
                                 .actor = field(event, "actor").as<bool>(),
                                 .work = nullptr};
    }
    if (op == "free-keys") return worker::FreeKeys{reader.keys()};
    if (op == "remove-replicas") return worker::RemoveReplicas{reader.keys()};
    if (op == "acquire-replicas") return worker::AcquireReplicas{reader.replicas()};
    if (op == "steal-request") return worker::StealRequest{reader.key()};
    if (op == "refresh-who-has") return worker::RefreshWhoHas{reader.replicas()};
    if (op == "remove-worker") return worker::RemoveWorker{text(event, "worker")};
    if (op == "cancel-compute") return worker::CancelCompute{reader.key()};
    if (op == "gather-dep-success") {
      for (const Object& entry : Reader::array(field(event, "data"))) {
        const auto parts = Reader::array(entry);
        gathered.push_back({reader.key(parts[0]), new_value(), parts[1].as<std::uint64_t>()});
      }
      return worker::GatherDepSuccess{peer(event), gathered};
    }
    if (op == "gather-dep-busy") return worker::GatherDepBusy{peer(event)};
    if (op == "gather-dep-network-failure") return worker::GatherDepNetworkFailure{peer(event)};
    if (op == "gather-dep-failure") return worker::GatherDepFailure{peer(event)};
    if (op == "retry-busy-worker") return worker::RetryBusyWorker{peer(event)};
    if (op == "update-data") {
      for (const Object& entry : Reader::array(field(event, "data"))) {
        const auto parts = Reader::array(entry);
        scattered.push_back({reader.key(parts[0]), new_value(), parts[1].as<std::uint64_t>()});
      }
      return worker::UpdateData{scattered};
    }
    return read_rest(op, event, reader);
  }

  worker::Event read_rest(std::string_view op, const Object& event, Reader& reader) {
    if (op == "pause") return worker::Pause{};
    if (op == "unpause") return worker::Unpause{};
    if (op == "find-missing") return worker::FindMissing{};
    const TaskId task = core_.find(reader.key()).value_or(TaskId{});
    if (op == "execute-success") {
      const auto nbytes = field(event, "nbytes").as<std::uint64_t>();
      return worker::ExecuteSuccess{task, run_id(event), new_value(), nbytes};
    }
    if (op == "execute-failure") return worker::ExecuteFailure{task, run_id(event)};
    if (op == "reschedule") return worker::ExecuteReschedule{task};
    if (op == "secede") return worker::Secede{task, field(event, "compute_duration").as<double>()};
    std::cerr << "no such op: " << op << "\n";
    std::exit(2);
  }

  static worker::RunId run_id(const Object& event) {
    return worker::RunId(field(event, "run_id").as<std::uint64_t>());
  }
  static std::string_view text(const Object& event, std::string_view name) {
    return field(event, name).as<std::string_view>();
  }
  worker::PeerId peer(const Object& event) {
    return core_.find_peer(text(event, "worker")).value_or(worker::PeerId{});
  }
  ValueId new_value() {
    values_.insert(next_value_);
    return ValueId(next_value_++);
  }

  //! Every value is with the core exactly until it is dropped.
  void settle_values(const worker::Actions& actions, std::vector<std::string>& complaints) {
    for (const worker::Action& action : actions) {
      const auto* drop = std::get_if<worker::DropValue>(&action);
      if (drop != nullptr && values_.erase(drop->value.value) == 0) {
        complaints.emplace_back("a value was dropped twice");
      }
      if (const auto* note = std::get_if<worker::Note>(&action)) {
        complaints.push_back("note " + std::to_string(static_cast<int>(note->kind)) + " " +
                             protocol::key_text(note->key));
      }
    }
    std::set<std::uint64_t> held;
    for (TaskId id : core_.tasks()) {
      if (core_.task(id).value.valid()) held.insert(core_.task(id).value.value);
    }
    if (held != values_) complaints.emplace_back("a value was lost or kept for nobody");
  }

  void write(const worker::Actions& actions, const std::vector<std::string>& complaints,
             bool digest) {
    out_.pack_array(3);
    std::vector<const worker::Action*> shown;
    for (const worker::Action& action : actions) {
      if (tests::is_instruction(action)) shown.push_back(&action);
    }
    out_.pack_array(static_cast<std::uint32_t>(shown.size()));
    for (const worker::Action* action : shown) tests::write_instruction(core_, *action, out_);
    out_.pack(complaints);
    if (digest) {
      tests::write_digest(core_, out_);
    } else {
      out_.pack_nil();
    }
  }

  Core core_;
  Packer& out_;
  std::set<std::uint64_t> values_;
  std::uint64_t next_value_ = 0;
};

worker::Config read_config(const Object& map) {
  worker::Config config;
  config.address = field(map, "address").as<std::string>();
  config.nthreads = field(map, "nthreads").as<std::uint32_t>();
  const Object& resources = field(map, "resources");
  for (std::uint32_t i = 0; i < resources.via.map.size; ++i) {
    const auto& entry = resources.via.map.ptr[i];
    config.resources.emplace_back(entry.key.as<std::string>(), entry.val.as<double>());
  }
  const auto number = [&](std::string_view name) { return field(map, name).as<std::uint64_t>(); };
  config.transfer_incoming_count_limit = field(map, "count_limit").as<std::uint32_t>();
  config.transfer_incoming_bytes_throttle_threshold = number("throttle_threshold");
  config.transfer_incoming_bytes_limit = number("bytes_limit");
  config.transfer_message_bytes_limit = number("message_bytes_limit");
  config.seed = 0;
  return config;
}

}  // namespace

int main() {
  std::ios::sync_with_stdio(false);
  const std::string input{std::istreambuf_iterator<char>(std::cin), {}};
  msgpack::sbuffer buffer;
  Packer out(buffer);
  std::size_t offset = 0;
  while (offset < input.size()) {
    const msgpack::object_handle handle = msgpack::unpack(input.data(), input.size(), offset);
    const auto parts = Reader::array(handle.get());
    Driver driver(read_config(parts[0]), out);
    const auto events = Reader::array(parts[1]);
    out.pack_array(static_cast<std::uint32_t>(events.size()));
    for (const Object& event : events) driver.run(event);
  }
  std::cout.write(buffer.data(), static_cast<std::streamsize>(buffer.size()));
  return 0;
}
