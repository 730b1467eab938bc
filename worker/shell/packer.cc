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

Async<Result<Packed>> Packer::pack(ValueId id) {
  const Held* held = store_.peek(id);
  if (!held) co_return Error{Fault::closed, "the value is gone"};
  if (held->value.packed) co_return Packed{held->value.packed, ""};
  if (!held->value.live) {
    Result<PayloadRef> read = co_await read_spilled(loop_, held->spilled);
    if (!read) co_return read.error();
    co_return Packed{*read, ""};
  }
  Completer<Answer> answer;
  auto& waiting = waiting_[id.value];
  waiting.push_back(answer);
  if (waiting.size() == 1) {
    requests_.push(PackRequest{PackRequest::Kind::pack, id, held->key, held->value, held->actor});
  }
  co_return co_await answer;
}

void Packer::packed(ValueId id, Packed bytes) {
  const auto waiting = waiting_.extract(id.value);
  if (waiting.empty()) return;
  for (const auto& answer : waiting.mapped()) answer.complete(bytes);
}

void Packer::end() {
  for (const auto& [id, waiting] : std::exchange(waiting_, {})) {
    for (const auto& answer : waiting) answer.complete(Error{Fault::closed, "this side ends"});
  }
}

}  // namespace worker
