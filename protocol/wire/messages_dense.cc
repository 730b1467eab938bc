#include "protocol/wire/messages_dense.h"

#include <string>

#include "protocol/wire/fields.h"

namespace protocol {
namespace {

template <std::size_t N>
void open_op(MessageWriter& writer, const char (&op)[N], std::uint32_t fields) {
  writer.map(fields + 1);
  writer.field("op");
  writer.literal(op);
}

Error wrong(std::string_view what) {
  return Error{Fault::bad_type, "rask-compute: " + std::string(what)};
}

//! Small ones stand in frame 0, others are a frame of their own, named by its number.
void write_bytes(MessageWriter& writer, const Slice& bytes) {
  if (bytes.size() < MessageWriter::kShareMin) return writer.bin(bytes.view());
  writer.uinteger(writer.attach(bytes));
}

constexpr std::size_t kCopiedBelow = 64 * 1024;

//! Copies small pieces, so that they do not pin the read block they arrived in.
Result<Slice> read_bytes(const Message& message, Value value) {
  if (const auto bin = value.as_bin()) return Slice::copy_of(*bin);
  const auto frame = value.as_uint();
  if (!frame || *frame == 0 || *frame >= message.frames().size()) return wrong("bytes are missing");
  const Slice& bytes = message.frames()[*frame];
  return bytes.size() < kCopiedBelow ? Slice::copy_of(bytes.view()) : bytes;
}

//! The elements of a list one after the other; one that does not exist after the last.
class Walk {
 public:
  explicit Walk(Value list) : elements_(list.elements()), at_(elements_.begin()) {}
  Value next() {
    if (!(at_ != elements_.end())) return Value();
    const Value here = *at_;
    ++at_;
    return here;
  }

 private:
  Elements elements_;
  Elements::Iterator at_;
};

Status read_parts(const Message& message, Value list, std::vector<Part>& out) {
  out.clear();
  for (const Value element : list.elements()) {
    Part& part = out.emplace_back();
    if (element.is_array()) {  // [number]: a blob
      part.number = Walk(element).next().as_uint().value_or(0);
      if (part.number == 0) return wrong("a buffer without a number");
      continue;
    }
    auto bytes = read_bytes(message, element);
    if (!bytes) return bytes.error();
    part.bytes = std::move(*bytes);
  }
  return Done{};
}

Status read_dependencies(const Message& message, Value list, WhoHas& out) {
  out.clear();
  for (const Value element : list.elements()) {  // [key, nbytes, address, …]
    Walk parts(element);
    auto key = message.key(parts.next());
    if (!key) return key.error();
    out.add_key(*key, parts.next().as_uint().value_or(0));
    for (Value address = parts.next(); address.exists(); address = parts.next()) {
      if (!address.is_str()) return wrong("an address that is not a str");
      out.add_address(*address.as_str());
    }
  }
  return Done{};
}

Status read_resources(Value map, std::vector<Amount>& out) {
  out.clear();
  for (const Entry entry : map.entries()) {
    const auto name = entry.key.as_str();
    const auto amount = entry.value.as_double();
    if (!name || !amount) return wrong("resources are not a map of numbers");
    out.emplace_back(*name, *amount);
  }
  return Done{};
}

}  // namespace

// ---- rask-compute -------------------------------------------------------------------------------

void write(MessageWriter& writer, const DenseCompute& message) {
  open_op(writer, "rask-compute", 3);
  writer.field("stimulus_id");
  writer.str(message.stimulus_id);
  writer.field("blobs");
  writer.array(static_cast<std::uint32_t>(message.blobs.size()));
  for (const NumberedBlob& blob : message.blobs) {
    writer.array(2);
    writer.uinteger(blob.number);
    write_bytes(writer, blob.bytes);
  }
  writer.field("tasks");
  writer.array(message.tasks);
}

void write(MessageWriter& writer, const DenseTask& task) {
  const bool plain = task.resources.empty() && !task.actor && !task.annotations;
  const bool bare = plain && task.dependencies.keys.empty();
  writer.array(bare ? 7 : plain ? 8 : 11);
  writer.key(task.key);
  writer.uinteger(task.run_id);
  writer.array(3);
  for (const double part : task.priority) writer.number(part);
  write_bytes(writer, task.own);
  writer.uinteger(task.tail);
  writer.array(static_cast<std::uint32_t>(task.buffers.size()));
  for (const Part& part : task.buffers) {
    if (part.number == 0) {
      write_bytes(writer, part.bytes);
    } else {
      writer.array(1);
      writer.uinteger(part.number);
    }
  }
  writer.nil();  // room for flags
  if (bare) return;
  writer.array(static_cast<std::uint32_t>(task.dependencies.keys.size()));
  for (const Holders& holders : task.dependencies.keys) {
    writer.array(2 + holders.count);
    writer.key(holders.key);
    writer.uinteger(holders.nbytes);
    for (const std::string_view address : task.dependencies.workers(holders)) writer.str(address);
  }
  if (plain) return;
  writer.map(static_cast<std::uint32_t>(task.resources.size()));
  for (const auto& [name, amount] : task.resources) {
    writer.str(name);
    writer.number(amount);
  }
  writer.boolean(task.actor);
  task.annotations ? writer.payload(task.annotations) : writer.nil();
}

Status read(const Message& message, Value op, DenseCompute& out, Value& list) {
  Fields fields(message, op, "rask-compute");
  out.stimulus_id = fields.str_or("stimulus_id", "");
  out.blobs.clear();
  for (const Value element : fields.require("blobs").elements()) {
    Walk parts(element);
    NumberedBlob& blob = out.blobs.emplace_back();
    blob.number = parts.next().as_uint().value_or(0);
    auto bytes = read_bytes(message, parts.next());
    if (!bytes) return bytes.error();
    if (blob.number == 0) return wrong("a blob without a number");
    blob.bytes = std::move(*bytes);
  }
  list = fields.require("tasks");
  if (list.exists() && !list.is_array()) fields.wrong("tasks", "is not a list");
  return fields.status();
}

Status read(const Message& message, Value record, DenseTask& out) {
  Walk parts(record);
  auto key = message.key(parts.next());
  if (!key) return key.error();
  out.key = *key;
  const auto run = parts.next().as_uint();
  if (!run) return wrong("run_id is not an int");
  out.run_id = *run;
  Walk priority(parts.next());
  for (double& part : out.priority) {
    const auto number = priority.next().as_double();
    if (!number) return wrong("priority is not three numbers");
    part = *number;
  }
  auto own = read_bytes(message, parts.next());
  if (!own) return own.error();
  out.own = std::move(*own);
  const auto tail = parts.next().as_uint();
  if (!tail) return wrong("tail is not a number");
  out.tail = *tail;
  if (auto read = read_parts(message, parts.next(), out.buffers); !read) return read;
  parts.next();  // flags of the future
  if (auto read = read_dependencies(message, parts.next(), out.dependencies); !read) return read;
  if (auto read = read_resources(parts.next(), out.resources); !read) return read;
  out.actor = parts.next().as_bool().value_or(false);
  const Value annotations = parts.next();
  out.annotations = nullptr;
  if (annotations.exists() && !annotations.is_nil()) {
    auto payload = message.payload(annotations);
    if (!payload) return payload.error();
    out.annotations = std::move(*payload);
  }
  return Done{};
}

// ---- rask-forget --------------------------------------------------------------------------------

void write(MessageWriter& writer, const ForgetBlobs& message) {
  open_op(writer, "rask-forget", 1);
  writer.field("blobs");
  writer.array(static_cast<std::uint32_t>(message.numbers.size()));
  for (const BlobNumber number : message.numbers) writer.uinteger(number);
}

Status read(const Message& message, Value op, ForgetBlobs& out) {
  Fields fields(message, op, "rask-forget");
  out.numbers.clear();
  for (const Value number : fields.require("blobs").elements()) {
    out.numbers.push_back(number.as_uint().value_or(0));
  }
  return fields.status();
}

// ---- rask-finished ------------------------------------------------------------------------------

void write(MessageWriter& writer, const DenseFinished& message) {
  open_op(writer, "rask-finished", 1);
  writer.field("task");
  writer.array(message.type_name.empty() ? 8 : 10);
  writer.key(message.key);
  writer.uinteger(message.run_id);
  writer.uinteger(message.nbytes);
  writer.uinteger(message.type);
  writer.integer(message.thread);
  writer.real(message.start);
  writer.real(message.stop);
  writer.str(message.stimulus_id);
  if (message.type_name.empty()) return;
  writer.bin(message.type_pickle);
  writer.str(message.type_name);
}

Status read(const Message& message, Value op, DenseFinished& out) {
  Fields fields(message, op, "rask-finished");
  Walk parts(fields.require("task"));
  auto key = message.key(parts.next());
  if (!key) return key.error();
  out.key = *key;
  const auto run = parts.next().as_uint();
  const auto nbytes = parts.next().as_uint();
  const auto type = parts.next().as_uint();
  const auto thread = parts.next().as_int();
  const auto start = parts.next().as_double();
  const auto stop = parts.next().as_double();
  if (!run || !nbytes || !type || !thread || !start || !stop) {
    fields.wrong("task", "is not a list of numbers");
    return fields.status();
  }
  out.run_id = *run;
  out.nbytes = *nbytes;
  out.type = *type;
  out.thread = *thread;
  out.start = *start;
  out.stop = *stop;
  out.stimulus_id = parts.next().as_str().value_or("");
  out.type_pickle = parts.next().as_bin().value_or("");
  out.type_name = parts.next().as_str().value_or("");
  return fields.status();
}

}  // namespace protocol
