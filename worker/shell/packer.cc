#include "worker/shell/packer.h"

#include <memory>
#include <utility>

namespace worker {

using protocol::Async;
using protocol::Completer;
using protocol::Error;
using protocol::Fault;
using protocol::Result;

Async<Result<PayloadRef>> read_spilled(protocol::Loop& loop, SpillRef file) {
  auto answer = std::make_shared<Result<PayloadRef>>(Error{Fault::closed, "not read"});
  Completer<bool> done;
  loop.offload([file, answer] { *answer = file->read(); }, [done] { done.complete(true); });
  co_await done;
  co_return std::move(*answer);
}

Async<Result<PayloadRef>> Packer::payload(ValueId id) {
  std::optional<Held> held = store_.get(id);
  if (!held) co_return Error{Fault::closed, "the value is gone"};
  if (held->value.packed) co_return held->value.packed;
  if (!held->value.live) co_return co_await read_spilled(loop_, held->spilled);

  Completer<Answer> answer;
  auto& waiting = waiting_[id.value];
  waiting.push_back(answer);
  if (waiting.size() == 1) {
    requests_.push(PackRequest{id, held->key, held->value.live, held->actor});
  }
  co_return co_await answer;
}

void Packer::packed(ValueId id, PayloadRef payload) {
  const auto waiting = waiting_.extract(id.value);
  if (waiting.empty()) return;
  for (const auto& answer : waiting.mapped()) answer.complete(payload);
}

void Packer::failed(ValueId id, std::string text) {
  const auto waiting = waiting_.extract(id.value);
  if (waiting.empty()) return;
  for (const auto& answer : waiting.mapped()) answer.complete(Error{Fault::bad_type, text});
}

}  // namespace worker
