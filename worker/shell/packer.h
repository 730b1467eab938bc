//! Values as payloads, whatever form they are in.
//!
//! A packed value is there at once; a spilled one is read on the thread pool; one that lives only
//! in Python waits for the pack thread. Several who ask for the same value share one packing. Only
//! this file decides which of the three it is.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <vector>

#include "protocol/base/result.h"
#include "protocol/net/async.h"
#include "protocol/net/loop.h"
#include "worker/shell/queues.h"
#include "worker/shell/store.h"

namespace worker {

//! A value as bytes. If it cannot be pickled the bytes say so to whoever reads them, as stock's do.
struct Packed {
  PayloadRef payload;
  std::string failure;  //!< empty: none
};

class Packer {
 public:
  Packer(protocol::Loop& loop, Store& store, WaitQueue<PackRequest>& requests)
      : loop_(loop), store_(store), requests_(requests) {}

  //! The bytes of a value. Fails if it is gone or its file is damaged.
  protocol::Async<protocol::Result<Packed>> pack(ValueId id);

  //! The answer of the pack thread.
  void packed(ValueId id, Packed bytes);
  //! The pack thread is gone: whoever waits for it is told so.
  void end();

 private:
  using Answer = protocol::Result<Packed>;

  protocol::Loop& loop_;
  Store& store_;
  WaitQueue<PackRequest>& requests_;
  absl::flat_hash_map<std::uint64_t, std::vector<protocol::Completer<Answer>>> waiting_;
};

//! Reads a spill file on the thread pool.
protocol::Async<protocol::Result<PayloadRef>> read_spilled(protocol::Loop& loop, SpillRef file);

}  // namespace worker
