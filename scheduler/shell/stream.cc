//! Reading op by op; see stream.h.
#include "scheduler/shell/stream.h"

#include <fmt/format.h>

#include "scheduler/shell/rpc.h"
#include "scheduler/shell/server.h"

namespace scheduler {
namespace {

using protocol::Error;
using protocol::Fault;

constexpr protocol::Duration kTurnBudget = protocol::Duration::ms(15);
constexpr std::uint32_t kOpsBetweenChecks = 16;
constexpr std::uint32_t kIgnoredSaid = 10;

}  // namespace

protocol::Async<void> sleep(protocol::Loop& loop, double seconds) {
  protocol::Timer timer(loop);
  const protocol::Completer<bool> fired;
  timer.start(static_cast<std::uint64_t>(seconds * 1000), 0, [fired] { fired.complete(true); });
  co_await fired;
}

protocol::Async<bool> StreamReader::next_message() {
  if (ended_) co_return false;
  forget_message();
  auto frames = co_await connection_->read();
  if (!frames) {
    const bool orderly = frames.error().where == "by the peer" || server_.closing();
    server_.log.write(orderly ? Log::Level::info : Log::Level::warning, Log::kCore,
                      fmt::format("Connection to {} has been closed{}{}.",
                                  connection_->peer().text(), orderly ? "" : ": ",
                                  orderly ? "" : frames.error().text()));
    co_return false;
  }
  // Most messages are small: no coroutine for those.
  protocol::Status parsed = protocol::Done{};
  if (!frames->empty() && (*frames)[0].size() >= kLargeHeader) {
    parsed = co_await parse(server_, message_, std::move(*frames));
  } else {
    parsed = message_.reset(std::move(*frames));
  }
  if (!parsed) {
    fail(parsed.error());
    co_return false;
  }
  const protocol::Value root = message_.root();
  if (!root.is_array() && !root.is_map()) {
    fail({Fault::bad_type, "a stream message is neither an array nor a map"});
    co_return false;
  }
  // A bare map is a batch of one.
  at_ = root.index() + (root.is_array() ? 1 : 0);
  left_ = root.is_array() ? static_cast<std::uint32_t>(root.size()) : 1;
  co_return true;
}

void StreamReader::forget_message() {
  if (left_ > 0 || message_.frames().empty()) return;
  if (message_.frames()[0].size() >= kHeavyHeader) message_.clear();
}

std::optional<StreamReader::Op> StreamReader::next_op() {
  if (left_ == 0) return std::nullopt;
  const protocol::Value value(&message_.document(), at_);
  at_ = message_.document().tape()[at_].next;
  --left_;
  if (value.equals("OK")) {
    left_ = 0;
    return std::nullopt;
  }
  const auto name = value.find("op").as_str();
  if (!name) {
    fail({Fault::bad_type, "a stream message without 'op'"});
    return std::nullopt;
  }
  const protocol::Op kind = protocol::op_of(*name);
  if (kind == protocol::Op::close_stream) {
    server_.log.write(Log::Level::info, Log::kCore,
                      fmt::format("Received 'close-stream' from {}; closing.",
                                  connection_->peer().text()));
    left_ = 0;
    ended_ = true;
    connection_->abort({Fault::closed, "by the peer"});
    return std::nullopt;
  }
  return Op{message_, value, kind};
}

bool StreamReader::tired() {
  if (++since_check_ < kOpsBetweenChecks) return false;
  since_check_ = 0;
  return server_.loop.turn_elapsed() > kTurnBudget;
}

void StreamReader::ignore(const Op& op, const Error& error) {
  if (++ignored_ > kIgnoredSaid) return;
  server_.log.warning(fmt::format("Ignored '{}' of {}: {}", protocol::op_name(op.kind),
                                  connection_->peer().text(), error.text()));
}

void StreamReader::fail(const Error& error) {
  server_.log.error(fmt::format("Closing the stream of {}: {}", connection_->peer().text(),
                                error.text()));
  left_ = 0;
  ended_ = true;
  connection_->abort(error);
}

}  // namespace scheduler
