//! What rask peers say on the worker stream instead of compute-task and task-finished.
//!
//! rask-compute carries many tasks, each a short list instead of a map, and names bytes that tasks
//! share (functions, constants) by number: a blob is sent once, in the message that first needs it,
//! and dropped by rask-forget when the scheduler lets go of it. rask-finished names the class of a
//! result by number in the same way. Numbers belong to one connection: a worker that registers anew
//! starts empty, and so does its scheduler. A stock peer never sees any of this.
//!
//! Structs borrow, as in messages_worker.h. Readers ignore elements they do not know.
//!
//! Answers to: nothing in Dask. Layouts: README.md.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "protocol/wire/messages_worker.h"

namespace protocol {

using BlobNumber = std::uint64_t;  //!< from 1; 0: none

struct NumberedBlob {
  BlobNumber number = 0;
  Slice bytes;
};

//! Bytes of a task that are shared (by number) or its own (`bytes`, number 0).
using Part = NumberedBlob;

struct DenseTask {
  KeyView key;
  std::uint64_t run_id = 0;
  std::array<double, 3> priority{};  //!< user, generation, order
  Slice own;                         //!< start of the pickle
  BlobNumber tail = 0;               //!< its shared end
  std::vector<Part> buffers;         //!< out-of-band buffers, in order
  WhoHas dependencies;               //!< no address: made by a task that was sent before
  std::vector<Amount> resources;
  bool actor = false;
  PayloadRef annotations;  //!< null: the empty map
};

//! rask-compute, written and read task by task, so that none is kept.
struct DenseCompute {
  std::vector<NumberedBlob> blobs;  //!< new ones
  std::uint32_t tasks = 0;
  std::string_view stimulus_id;
};
//! Opens the op; exactly `tasks` calls of write(DenseTask) follow.
void write(MessageWriter& writer, const DenseCompute& message);
void write(MessageWriter& writer, const DenseTask& task);
//! Leaves the tasks to be read one by one from `list`.
Status read(const Message& message, Value op, DenseCompute& out, Value& list);
Status read(const Message& message, Value record, DenseTask& out);

struct ForgetBlobs {  //!< rask-forget
  std::vector<BlobNumber> numbers;
};
void write(MessageWriter& writer, const ForgetBlobs& message);
Status read(const Message& message, Value op, ForgetBlobs& out);

//! rask-finished: a task that ran and fetched nothing.
struct DenseFinished {
  KeyView key;
  std::uint64_t run_id = 0;
  std::uint64_t nbytes = 0;
  std::uint64_t type = 0;      //!< number of its class, from 1
  ByteView type_pickle;        //!< with the first use of the number; else empty
  std::string_view type_name;  //!< likewise
  std::int64_t thread = 0;
  double start = 0;
  double stop = 0;
  std::string_view stimulus_id;
};
void write(MessageWriter& writer, const DenseFinished& message);
Status read(const Message& message, Value op, DenseFinished& out);

}  // namespace protocol
