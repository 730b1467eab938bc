//! Reading, writing and closing of one connection; see connection.h.
#include "protocol/net/connection.h"

#include <utility>

#include "protocol/base/check.h"
#include "protocol/net/socket.h"

namespace protocol {
namespace {

// What may wait here for a reader before the socket is left alone.
constexpr std::size_t kInboxMessages = 256;
constexpr std::size_t kInboxBytes = 64u << 20;
// A turn that lasted this long hands out no more messages.
constexpr Duration kTurnBudget = Duration::ms(20);

std::size_t size_of(const Frames& frames) {
  std::size_t bytes = 0;
  for (const Slice& frame : frames) bytes += frame.size();
  return bytes;
}

Connection* owner(void* handle) {
  return static_cast<Connection*>(static_cast<uv_handle_t*>(handle)->data);
}

}  // namespace

Connection::Ref Connection::create(Loop& loop) {
  const Ref connection(new Connection(loop));
  CHECK_ALWAYS(uv_tcp_init(loop.uv(), &connection->socket_) == 0);
  connection->socket_.data = connection.get();
  connection->self_ = connection;
  return connection;
}

Connection::~Connection() = default;

void Connection::start(int timeout_seconds) {
  set_socket_options(&socket_, timeout_seconds);
  peer_ = remote_address(&socket_);
  local_ = local_address(&socket_);
  hold_or_resume_socket();
}

// ---- reading ------------------------------------------------------------------------------------

void Connection::hold_or_resume_socket() {
  const std::size_t messages_max = greeted_ ? kInboxMessages : 1;
  const bool wanted = !closed_ && inbox_.size() < messages_max && inbox_bytes_ < kInboxBytes;
  if (wanted == reading_) return;
  reading_ = wanted;
  if (!wanted) {
    if (!closed_) uv_read_stop(reinterpret_cast<uv_stream_t*>(&socket_));
    return;
  }
  const int status = uv_read_start(
      reinterpret_cast<uv_stream_t*>(&socket_),
      [](uv_handle_t* handle, std::size_t, uv_buf_t* buffer) {
        const auto space = owner(handle)->frames_.prepare();
        *buffer = uv_buf_t{space.data, space.size};
      },
      [](uv_stream_t* stream, ssize_t count, const uv_buf_t*) { owner(stream)->on_bytes(count); });
  if (status != 0) abort(Error{Fault::io, uv_strerror(status)});
}

void Connection::on_bytes(ssize_t count) {
  if (count == 0) return;
  loop_.begin_work();
  if (count < 0) {
    const bool cut = count == UV_EOF && frames_.mid_message();
    abort({Fault::closed, cut ? "in the middle of a message"
                          : count == UV_EOF ? "by the peer" : uv_strerror(static_cast<int>(count))});
    return;
  }
  const Ref keep = shared_from_this();
  frames_.commit(static_cast<std::size_t>(count));
  take_messages();
  if (!closed_) deliver();
}

void Connection::take_messages() {
  for (Frames message; greeted_ || inbox_.empty();) {
    const auto whole = frames_.next(message);
    if (!whole) {
      abort(whole.error());
      return;
    }
    if (!*whole) break;
    inbox_bytes_ += size_of(message);
    inbox_.push_back(std::exchange(message, {}));
  }
  hold_or_resume_socket();
}

void Connection::lift_handshake_limits() {
  greeted_ = true;
  frames_.set_profile(FrameReader::Profile::established);
  take_messages();
}

void Connection::deliver() {
  if (!waiting_ || (inbox_.empty() && !closed_)) return;
  if (!closed_ && loop_.turn_elapsed() >= kTurnBudget) {
    deliver_later();
  } else {
    std::exchange(waiting_, nullptr).resume();
  }
}

void Connection::deliver_later() {
  if (deliver_deferred_) return;
  deliver_deferred_ = true;
  loop_.defer([self = shared_from_this()] {
    self->deliver_deferred_ = false;
    // The turn has just begun: always hand out one, so that every peer gets on.
    if (!self->waiting_ || (self->inbox_.empty() && !self->closed_)) return;
    std::exchange(self->waiting_, nullptr).resume();
  });
}

Connection::Reader Connection::read() { return Reader(shared_from_this()); }

bool Connection::Reader::await_ready() const {
  if (connection_->inbox_.empty()) return connection_->closed_;
  return connection_->loop_.turn_elapsed() < kTurnBudget;
}

void Connection::Reader::await_suspend(std::coroutine_handle<> awaiter) {
  CHECK_ALWAYS(!connection_->waiting_);
  connection_->waiting_ = awaiter;
  if (!connection_->inbox_.empty()) connection_->deliver_later();
}

Result<Frames> Connection::Reader::await_resume() {
  if (connection_->inbox_.empty()) return connection_->reason();
  Frames message = std::move(connection_->inbox_.front());
  connection_->inbox_.pop_front();
  connection_->inbox_bytes_ -= size_of(message);
  connection_->hold_or_resume_socket();
  return message;
}

// ---- writing ------------------------------------------------------------------------------------

void Connection::send(const OutMessage& message) {
  if (closed_ || shut_down_) return;
  // Judged before the message is added: one large message alone is always allowed.
  if (outbox_.bytes() > kLimits.outbox_bytes_max) {
    abort(Error{Fault::too_large, "the peer does not read: " + std::to_string(outbox_.bytes()) +
                                      " bytes wait to be sent"});
    return;
  }
  for (const Slice& piece : message.pieces) outbox_.append(piece);
  flush_soon();
}

void Connection::flush_soon() {
  if (flush_asked_ || closed_) return;
  flush_asked_ = true;
  loop_.flush_at_turn_end(shared_from_this());
}

void Connection::flush() {
  flush_asked_ = false;
  if (closed_ || shut_down_ || outbox_.in_flight()) return;
  if (before_flush_) before_flush_();
  if (closed_) return;
  const int status = outbox_.flush(reinterpret_cast<uv_stream_t*>(&socket_),
                                   [this](int result) { on_written(result); });
  if (status != 0) {
    abort(Error{Fault::closed, uv_strerror(status)});
  } else if (closing_ && !outbox_.in_flight()) {
    finish_closing();
  }
}

void Connection::on_written(int status) {
  if (closed_) return;
  if (status != 0) {
    abort(Error{Fault::closed, uv_strerror(status)});
  } else {
    // What gathered behind this write leaves now, without waiting for other events.
    flush();
  }
}

// ---- closing ------------------------------------------------------------------------------------

void Connection::close() {
  if (closed_ || closing_) return;
  flush_soon();
  closing_ = true;
}

void Connection::finish_closing() {
  shut_down_ = true;
  shutdown_.data = this;
  const int status = uv_shutdown(&shutdown_, reinterpret_cast<uv_stream_t*>(&socket_),
                                 [](uv_shutdown_t* request, int) {
                                   static_cast<Connection*>(request->data)
                                       ->abort(Error{Fault::closed, "by this side"});
                                 });
  if (status != 0) abort(Error{Fault::closed, "by this side"});
}

void Connection::abort(Error reason) {
  if (closed_) return;
  closed_ = true;
  reason_ = std::move(reason);
  outbox_.clear();
  uv_close(reinterpret_cast<uv_handle_t*>(&socket_), [](uv_handle_t* handle) {
    // Dropping the last share may destroy the connection: let go of it last.
    const Ref last = std::move(owner(handle)->self_);
  });
  // Never from inside a send: the caller may be in the middle of a step.
  loop_.defer([self = shared_from_this()] {
    if (auto hook = std::exchange(self->on_close_, nullptr)) hook();
  });
  deliver_later();
}

}  // namespace protocol
