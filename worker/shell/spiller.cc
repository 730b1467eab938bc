#include "worker/shell/spiller.h"

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <utility>

namespace worker {

using protocol::Async;
using protocol::Completer;
using protocol::Duration;
using protocol::Error;
using protocol::Fault;
using protocol::Result;

namespace {

constexpr Duration kRestAfterFailure = Duration::ms(10'000);
constexpr Duration kBetweenTrims = Duration::ms(1'000);
constexpr Duration kBetweenVainTrims = Duration::ms(3'000);
constexpr double kWorthTrimming = 0.02;  // of the limit

double share(std::uint64_t bytes, const Options& options) {
  return static_cast<double>(bytes) / static_cast<double>(options.memory.limit);
}

}  // namespace

std::uint64_t resident_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (!file) return 0;
  unsigned long pages = 0;
  unsigned long resident = 0;
  const int read = std::fscanf(file, "%lu %lu", &pages, &resident);
  std::fclose(file);
  return read == 2 ? resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

Spiller::Spiller(protocol::Loop& loop, Store& store, Packer& packer, const Options& options,
                 Hooks hooks)
    : loop_(loop), store_(store), packer_(packer), options_(options), hooks_(std::move(hooks)),
      timer_(loop) {}

void Spiller::start() {
  if (options_.memory.limit == 0) return;
  const auto ms = static_cast<std::uint64_t>(options_.memory_monitor_seconds * 1000);
  if (ms > 0) timer_.start(ms, ms, [this] { watch(); });
}

void Spiller::stop() {
  stopped_ = true;
  timer_.stop();
}

void Spiller::value_added() {
  if (options_.memory.limit != 0) spill_if(over_target());
}

bool Spiller::over_target() const {
  return options_.memory.target > 0 &&
         share(store_.fast_bytes(), options_) > options_.memory.target;
}

bool Spiller::has_room(std::uint64_t bytes) const {
  return options_.memory.limit == 0 || options_.memory.target <= 0 ||
         share(store_.fast_bytes() + bytes, options_) <= options_.memory.target;
}

double Spiller::low() const {
  if (options_.memory.target > 0) return options_.memory.target;
  return options_.memory.spill > 0 ? options_.memory.spill : options_.memory.pause;
}

void Spiller::watch() {
  if (options_.memory.limit == 0) return hooks_.measured(0, false);  // taken away while we ran
  const double used = share(resident_bytes(), options_);
  const bool high = low() > 0 && used > low();
  if (!high || trimming_ || loop_.now().mono < trim_from_) return judge(used);
  trimming_ = true;
  spawn(trim_and_judge());
}

//! On the thread pool: with much to give back it takes milliseconds.
Async<void> Spiller::trim_and_judge() {
  const double before = share(resident_bytes(), options_);
  Completer<bool> done;
  loop_.offload([] { ::malloc_trim(0); }, [done] { done.complete(true); });
  co_await done;
  const double used = share(resident_bytes(), options_);
  trimming_ = false;
  trim_from_ = loop_.now().mono +
               (before - used > kWorthTrimming ? kBetweenTrims : kBetweenVainTrims);
  if (!stopped_ && options_.memory.limit > 0) judge(used);
}

void Spiller::judge(double used) {
  if (options_.memory.pause > 0) hooks_.measured(used, used > options_.memory.pause);
  process_over_ = options_.memory.spill > 0 && used > options_.memory.spill;
  spill_if(process_over_ || over_target());
}

//! Above `spill` values go until the process is below `target` again.
bool Spiller::still_over() {
  if (options_.memory.limit == 0) return false;
  process_over_ = process_over_ && share(resident_bytes(), options_) > low();
  return !stopped_ && (process_over_ || over_target());
}

void Spiller::spill_if(bool wanted) {
  if (!wanted || spilling_ || loop_.now().mono < rest_until_) return;
  spilling_ = true;
  spawn(spill_until_content());
}

Async<Result<SpillRef>> Spiller::write(PayloadRef payload) {
  const std::string path =
      options_.local_directory + "/spilled-" + std::to_string(next_file_++);
  auto answer = std::make_shared<Result<SpillRef>>(Error{Fault::closed, "not written"});
  Completer<bool> done;
  loop_.offload([path, payload, answer] { *answer = SpillFile::write(path, *payload); },
                [done] { done.complete(true); });
  co_await done;
  co_return std::move(*answer);
}

Async<void> Spiller::spill_until_content() {
  while (still_over()) {
    auto victim = store_.next_victim();
    if (!victim) break;
    const bool more = co_await spill(victim->first, std::move(victim->second));
    if (!more) break;
  }
  spilling_ = false;
}

Async<bool> Spiller::spill(ValueId id, Held held) {
  SpillRef file = held.spilled;  // written before and read back since: the file is still good
  if (!file) {
    if (options_.max_spill > 0 && store_.disk_bytes() + held.value.nbytes > options_.max_spill) {
      store_.keep(id, false);
      co_return false;
    }
    Result<Packed> packed = co_await packer_.pack(id);
    if (!packed || !packed->failure.empty()) {
      if (packed) hooks_.log("Failed to pickle " + key_text(held.key) + ": " + packed->failure);
      store_.keep(id, true);
      co_return true;
    }
    Result<SpillRef> written = co_await write(packed->payload);
    if (!written) {
      hooks_.log("Spill to disk failed; keeping data in memory: " + written.error().text());
      store_.keep(id, false);
      rest_until_ = loop_.now().mono + kRestAfterFailure;
      co_return false;
    }
    file = *written;
  }
  store_.evict(id, std::move(file));
  co_return true;
}

}  // namespace worker
