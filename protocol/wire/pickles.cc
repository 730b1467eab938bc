#include "protocol/wire/pickles.h"

#include <absl/container/inlined_vector.h>

#include <cstring>
#include <vector>

#include "protocol/base/key_token.h"

namespace protocol {

void PickleWriter::put_le(std::uint64_t value, unsigned width) {
  for (unsigned k = 0; k < width; ++k) out_.push_back(static_cast<char>(value >> (8 * k)));
}

void PickleWriter::integer(std::int64_t value) {
  if (value >= 0 && value < 0x100) {
    out_.push_back('K');
    put_le(static_cast<std::uint64_t>(value), 1);
  } else if (value >= -0x80000000LL && value < 0x80000000LL) {
    out_.push_back('J');
    put_le(static_cast<std::uint64_t>(value), 4);
  } else {
    out_.append("\x8a\x08", 2);  // LONG1: eight bytes, two's complement
    put_le(static_cast<std::uint64_t>(value), 8);
  }
}

void PickleWriter::real(double value) {
  std::uint64_t bits;
  std::memcpy(&bits, &value, 8);
  out_.push_back('G');
  for (int shift = 56; shift >= 0; shift -= 8) out_.push_back(static_cast<char>(bits >> shift));
}

void PickleWriter::str(std::string_view text) {
  if (text.size() < 0x100) {
    out_.push_back('\x8c');
    put_le(text.size(), 1);
  } else {
    out_.push_back('\x8d');
    put_le(text.size(), 8);
  }
  out_.append(text);
}

void PickleWriter::bytes(ByteView bytes) {
  if (bytes.size() < 0x100) {
    out_.push_back('C');
    put_le(bytes.size(), 1);
  } else {
    out_.push_back('\x8e');
    put_le(bytes.size(), 8);
  }
  out_.append(bytes);
}

void PickleWriter::key(KeyView key) {
  ByteView in = key.bytes;
  absl::InlinedVector<std::uint64_t, 8> left;
  do {
    const KeyToken token = read_key_token(in);
    in.remove_prefix(token.bytes);
    switch (token.kind) {
      case KeyToken::Kind::array:
        if (token.number > 0) {
          mark();
          left.push_back(token.number);
          continue;
        }
        empty_tuple();
        break;
      case KeyToken::Kind::str: str(token.body); break;
      case KeyToken::Kind::bin: bytes(token.body); break;
      case KeyToken::Kind::floating: real(token.real); break;
      case KeyToken::Kind::integer:
        if (!token.negative && token.number >> 63 != 0) {  // nine bytes keep it positive
          out_.append("\x8a\x09", 2);
          put_le(token.number, 8);
          out_.push_back('\0');
        } else {
          integer(static_cast<std::int64_t>(token.number));
        }
        break;
      default: none();
    }
    while (!left.empty() && --left.back() == 0) {
      close_tuple();
      left.pop_back();
    }
  } while (!left.empty() && !in.empty());
}

void PickleWriter::recall(std::uint32_t number) {
  out_.push_back('j');
  put_le(number, 4);
}

void PickleWriter::global(std::string_view module, std::string_view name) {
  str(module);
  str(name);
  out_.push_back('\x93');
}

std::string PythonError::repr() const {
  return std::string(type) + "(" + key_repr(string_key(text)) + ")";
}

std::string pickle_exception(const PythonError& error) {
  PickleWriter pickle;
  pickle.global(error.module, error.type);
  pickle.mark();
  pickle.str(error.text);
  pickle.close_tuple();
  pickle.call();
  return pickle.finish();
}

std::string pickle_key_error(KeyView key) {
  PickleWriter pickle;
  pickle.global("builtins", "KeyError");
  pickle.mark();
  pickle.key(key);
  pickle.close_tuple();
  pickle.call();
  return pickle.finish();
}

std::string pickle_killed_worker(KeyView task, std::string_view last_worker,
                                 std::uint32_t allowed_failures) {
  PickleWriter pickle;
  pickle.global("distributed.scheduler", "KilledWorker");
  pickle.mark();
  pickle.key(task);
  // Stock puts a WorkerState here; its text and its users read only the address.
  pickle.global("types", "SimpleNamespace");
  pickle.empty_tuple();
  pickle.call();
  pickle.open_dict();
  pickle.str("address");
  pickle.str(last_worker);
  pickle.close_dict();
  pickle.build();
  pickle.integer(allowed_failures);
  pickle.close_tuple();
  pickle.call();
  return pickle.finish();
}

std::string pickle_no_valid_worker(KeyView task, std::span<const std::string> host_restrictions,
                                   std::span<const std::string> worker_restrictions,
                                   std::span<const std::pair<std::string, double>> resources,
                                   double timeout_seconds) {
  PickleWriter pickle;
  pickle.global("distributed.scheduler", "NoValidWorkerError");
  pickle.mark();
  pickle.key(task);
  for (const auto& restrictions : {host_restrictions, worker_restrictions}) {
    pickle.open_set();
    for (const std::string& name : restrictions) pickle.str(name);
    pickle.close_set();
  }
  pickle.open_dict();
  for (const auto& [name, amount] : resources) {
    pickle.str(name);
    pickle.real(amount);
  }
  pickle.close_dict();
  pickle.real(timeout_seconds);
  pickle.close_tuple();
  pickle.call();
  return pickle.finish();
}

std::string pickle_no_worker(KeyView task, double timeout_seconds) {
  PickleWriter pickle;
  pickle.global("distributed.scheduler", "NoWorkerError");
  pickle.mark();
  pickle.key(task);
  pickle.real(timeout_seconds);
  pickle.close_tuple();
  pickle.call();
  return pickle.finish();
}

std::string pickle_shuffle_worker_plugin() {
  PickleWriter pickle;
  pickle.global("distributed.shuffle._worker_plugin", "ShuffleWorkerPlugin");
  pickle.empty_tuple();
  pickle.new_object();
  return pickle.finish();
}

namespace {

//! {partition: address}; each address is written once and recalled afterwards.
void write_worker_for(PickleWriter& pickle, const ShuffleRunPickle& run) {
  constexpr std::uint32_t kUnwritten = ~std::uint32_t{0};
  std::vector<std::uint32_t> memo(run.workers.size(), kUnwritten);
  std::uint32_t written = 0;
  std::vector<std::uint32_t> index(run.chunks.size(), 0);
  pickle.open_dict();
  for (std::size_t i = 0; i < run.worker_for.size(); ++i) {
    if (!run.parts.empty()) {
      pickle.integer(static_cast<std::int64_t>(run.parts[i]));
    } else {
      pickle.mark();
      for (const std::uint32_t axis : index) pickle.integer(axis);
      pickle.close_tuple();
      for (std::size_t axis = index.size(); axis-- > 0;) {
        if (++index[axis] < run.chunks[axis]) break;
        index[axis] = 0;
      }
    }
    const std::uint32_t worker = run.worker_for[i];
    if (memo[worker] != kUnwritten) {
      pickle.recall(memo[worker]);
    } else {
      pickle.str(run.workers[worker]);
      pickle.memoize();
      memo[worker] = written++;
    }
  }
  pickle.close_dict();
}

}  // namespace

std::string pickle_shuffle_run_spec(const ShuffleRunPickle& run) {
  PickleWriter pickle;
  pickle.global("distributed.shuffle._core", "ShuffleRunSpec");
  pickle.empty_tuple();
  pickle.new_object();
  pickle.open_dict();
  pickle.str("run_id");
  pickle.integer(static_cast<std::int64_t>(run.run_id));
  pickle.str("spec");
  pickle.global("pickle", "loads");  // a pickle of its own, so its memo does not meet ours
  pickle.mark();
  pickle.bytes(run.spec);
  pickle.close_tuple();
  pickle.call();
  pickle.str("worker_for");
  write_worker_for(pickle, run);
  pickle.str("span_id");
  pickle.none();
  pickle.close_dict();
  pickle.build();
  return pickle.finish();
}

}  // namespace protocol
