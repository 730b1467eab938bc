//! Values as payloads, whatever form they are in.
//!
//! A packed value is there at once; a spilled one is read on the thread pool; one that lives only
//! in Python waits for the pack thread. Several who ask for the same value share one packing. Only
//! this file decides which of the three it is. Loop thread only.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <vector>

#include "protocol/base/result.h"
#include "protocol/net/async.h"
#include "protocol/net/loop.h"
#include "worker/shell/queues.h"
#include "worker/shell/store.h"

namespace worker {

class Packer {
 public:
  Packer(protocol::Loop& loop, Store& store, WaitQueue<PackRequest>& requests)
      : loop_(loop), store_(store), requests_(requests) {}

  //! The payload of a value. Fails if it is gone, its file is damaged or it cannot be pickled.
  protocol::Async<protocol::Result<PayloadRef>> payload(ValueId id);

  //! Answers of the pack thread.
  void packed(ValueId id, PayloadRef payload);
  void failed(ValueId id, std::string text);

 private:
  using Answer = protocol::Result<PayloadRef>;

  protocol::Loop& loop_;
  Store& store_;
  WaitQueue<PackRequest>& requests_;
  absl::flat_hash_map<std::uint64_t, std::vector<protocol::Completer<Answer>>> waiting_;
};

//! Reads a spill file on the thread pool.
protocol::Async<protocol::Result<PayloadRef>> read_spilled(protocol::Loop& loop, SpillRef file);

}  // namespace worker
