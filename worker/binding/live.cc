#include "worker/binding/live.h"

#include <utility>

namespace worker {

void DropQueue::on_work(std::function<void()> wake) {
  const std::scoped_lock lock(mutex_);
  wake_ = std::move(wake);
}

LiveRef DropQueue::hold(PyObject* object) {
  Py_INCREF(object);
  return LiveRef(object, [queue = shared_from_this()](void* held) {
    queue->push({static_cast<PyObject*>(held), nullptr});
  });
}

protocol::Slice DropQueue::export_buffer(PyObject* object) {
  auto* view = new Py_buffer;
  if (PyObject_GetBuffer(object, view, PyBUF_SIMPLE) != 0) {
    delete view;
    return {};
  }
  std::shared_ptr<const void> owner(view, [queue = shared_from_this()](void* held) {
    queue->push({nullptr, static_cast<Py_buffer*>(held)});
  });
  const protocol::ByteView bytes(static_cast<const char*>(view->buf),
                                 static_cast<std::size_t>(view->len));
  return protocol::Slice(std::move(owner), bytes);
}

void DropQueue::push(Entry entry) {
  if (closed_) return;
  std::function<void()> wake;
  {
    const std::scoped_lock lock(mutex_);
    if (closed_) return;
    if (entries_.empty()) wake = wake_;
    entries_.push_back(entry);
  }
  if (wake) wake();
}

void DropQueue::drain() {
  if (closed_) return;
  std::vector<Entry> batch;
  {
    const std::scoped_lock lock(mutex_);
    batch.swap(entries_);
  }
  // Dropping a reference may run destructors that queue more; those wait for the next drain.
  for (const Entry& entry : batch) {
    if (entry.buffer) {
      PyBuffer_Release(entry.buffer);
      delete entry.buffer;
    } else {
      Py_DECREF(entry.object);
    }
  }
}

void DropQueue::close() {
  const std::scoped_lock lock(mutex_);
  closed_ = true;
  entries_.clear();
  wake_ = nullptr;
}

}  // namespace worker
