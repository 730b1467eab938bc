//! Gathering and writing; see outbox.h.
#include "protocol/net/outbox.h"

#include <utility>

namespace protocol {
namespace {

constexpr std::size_t kBlockKept = 256 * 1024;

}  // namespace

//! One uv_write and the slices it shows to the kernel.
struct Outbox::Write {
  uv_write_t request;
  std::vector<Slice> pieces;
  Outbox* outbox;
  std::function<void(int)> on_done;
};

void Outbox::append(ByteView bytes) {
  block_.append(bytes);
  queued_bytes_ += bytes.size();
}

void Outbox::append(Slice slice) {
  if (slice.size() < kCopyBelow) {
    append(slice.view());
    return;
  }
  seal();
  queued_bytes_ += slice.size();
  queue_.push_back(std::move(slice));
}

void Outbox::seal() {
  if (block_.empty()) return;
  queue_.push_back(Slice::own(std::exchange(block_, {})));
}

void Outbox::clear() {
  block_.clear();
  queue_.clear();
  queued_bytes_ = 0;
}

int Outbox::flush(uv_stream_t* stream, const std::function<void(int)>& on_done) {
  if (in_flight() || queued_bytes_ == 0) return 0;

  // The common case, one block of small messages to a peer that reads: one write, no allocation.
  if (queue_.empty()) {
    const uv_buf_t buffer{block_.data(), block_.size()};
    const int written = uv_try_write(stream, &buffer, 1);
    if (written < 0 && written != UV_EAGAIN) return written;
    if (written == static_cast<int>(block_.size())) {
      queued_bytes_ = 0;
      if (block_.capacity() > kBlockKept) block_ = {};
      block_.clear();
      return 0;
    }
    if (written > 0) {
      block_.erase(0, static_cast<std::size_t>(written));
      queued_bytes_ -= static_cast<std::size_t>(written);
    }
  }

  seal();
  auto* write = new Write{{}, std::exchange(queue_, {}), this, on_done};
  write->request.data = write;
  std::vector<uv_buf_t> buffers;
  buffers.reserve(write->pieces.size());
  for (const Slice& piece : write->pieces) {
    // Not uv_buf_init: it cuts lengths to 32 bits.
    buffers.push_back(uv_buf_t{const_cast<char*>(piece.data()), piece.size()});
  }
  in_flight_bytes_ = std::exchange(queued_bytes_, 0);
  const int status = uv_write(
      &write->request, stream, buffers.data(), static_cast<unsigned>(buffers.size()),
      [](uv_write_t* request, int result) {
        const std::unique_ptr<Write> ended(static_cast<Write*>(request->data));
        ended->outbox->in_flight_bytes_ = 0;
        ended->on_done(result);
      });
  if (status != 0) {
    in_flight_bytes_ = 0;
    delete write;
  }
  return status;
}

}  // namespace protocol
