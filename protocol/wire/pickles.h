//! Pickles made by hand: the few Python objects a native peer must produce.
//!
//! Protocol 4 opcodes without memo; every supported Python reads them. Only for values made here:
//! nothing in this file reads a pickle. Answers to: protocol.md Appendix A.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "protocol/base/bytes.h"
#include "protocol/base/key.h"

namespace protocol {

//! Opcodes in the order of a stack machine: arguments first, then what consumes them.
class PickleWriter {
 public:
  PickleWriter() : out_("\x80\x04", 2) {}

  void none() { out_.push_back('N'); }
  void boolean(bool value) { out_.push_back(value ? '\x88' : '\x89'); }
  void integer(std::int64_t value);
  void real(double value);
  void str(std::string_view text);
  void bytes(ByteView bytes);
  //! The Python value of a canonical key.
  void key(KeyView key);

  //! Opens a collection that one of the close functions ends.
  void mark() { out_.push_back('('); }
  void close_tuple() { out_.push_back('t'); }
  void empty_tuple() { out_.push_back(')'); }
  void open_list() { out_.append("]("); }
  void close_list() { out_.push_back('e'); }
  void open_dict() { out_.append("}("); }
  void close_dict() { out_.push_back('u'); }
  void open_set() { out_.append("\x8f("); }
  void close_set() { out_.push_back('\x90'); }

  //! Remembers the value just written under the next number, from 0.
  void memoize() { out_.push_back('\x94'); }
  void recall(std::uint32_t number);

  //! module.name
  void global(std::string_view module, std::string_view name);
  //! Calls the object below the argument tuple.
  void call() { out_.push_back('R'); }
  //! cls.__new__(cls, *args)
  void new_object() { out_.push_back('\x81'); }
  //! Sets the state of the object below.
  void build() { out_.push_back('b'); }

  std::string finish() {
    out_.push_back('.');
    return std::move(out_);
  }

 private:
  void put_le(std::uint64_t value, unsigned width);

  std::string out_;
};

//! A Python exception to be raised at a peer: module.type(text).
struct PythonError {
  std::string_view type;  //!< for example KeyError
  std::string text;
  std::string_view module = "builtins";

  //! As Python's repr prints it.
  std::string repr() const;
};

std::string pickle_exception(const PythonError& error);
//! KeyError(key) with the key as the Python value it is.
std::string pickle_key_error(KeyView key);

//! distributed.scheduler.KilledWorker(task, last_worker, allowed_failures)
std::string pickle_killed_worker(KeyView task, std::string_view last_worker,
                                 std::uint32_t allowed_failures);
//! distributed.scheduler.NoValidWorkerError
std::string pickle_no_valid_worker(KeyView task, std::span<const std::string> host_restrictions,
                                   std::span<const std::string> worker_restrictions,
                                   std::span<const std::pair<std::string, double>> resources,
                                   double timeout_seconds);
//! distributed.scheduler.NoWorkerError
std::string pickle_no_worker(KeyView task, double timeout_seconds);
//! distributed.shuffle._worker_plugin.ShuffleWorkerPlugin(), which stock gives to every worker
std::string pickle_shuffle_worker_plugin();

//! distributed.shuffle._core.ShuffleRunSpec around a spec that stays pickled.
struct ShuffleRunPickle {
  std::uint64_t run_id = 0;
  ByteView spec;                                 //!< pickle of the ShuffleSpec
  std::span<const std::string_view> workers;     //!< addresses
  std::span<const std::uint32_t> worker_for;     //!< by output: number of its worker
  //! Outputs are these numbers, or if there are none all indices of an array with so many chunks.
  std::span<const std::uint64_t> parts;
  std::span<const std::uint32_t> chunks;
};
std::string pickle_shuffle_run_spec(const ShuffleRunPickle& run);

}  // namespace protocol
