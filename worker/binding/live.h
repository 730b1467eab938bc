//! Shares in Python objects that may be given up by threads without the GIL.
//!
//! hold() takes a reference while the GIL is held; when the last native share goes, on whatever
//! thread, the reference is only *queued*. drain() drops what is queued and must be called with
//! the GIL held. After close() (interpreter exit) queued references are leaked on purpose.
#pragma once

#include <Python.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "protocol/base/bytes.h"
#include "worker/shell/border.h"

namespace worker {

class DropQueue : public std::enable_shared_from_this<DropQueue> {
 public:
  //! Called (without the GIL) when the queue gets its first entry.
  void on_work(std::function<void()> wake);

  //! A share in `object`. GIL held.
  LiveRef hold(PyObject* object);
  //! The bytes of a buffer-protocol object, without a copy, kept alive by the result. GIL held.
  //! Returns an empty Slice and sets a Python error when `object` has no contiguous buffer.
  protocol::Slice export_buffer(PyObject* object);

  void drain();
  bool empty() const {
    const std::scoped_lock lock(mutex_);
    return entries_.empty();
  }
  void close();
  //! Like close(), in a forked child, where the lock may be held by a thread that does not exist.
  void abandon() { closed_ = true; }

 private:
  struct Entry {
    PyObject* object = nullptr;
    Py_buffer* buffer = nullptr;
  };
  void push(Entry entry);

  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  std::function<void()> wake_;
  std::atomic<bool> closed_ = false;
};

}  // namespace worker
