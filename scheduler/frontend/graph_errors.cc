//! See graph_errors.h.
#include "scheduler/frontend/graph_errors.h"

#include <utility>

#include "protocol/wire/message.h"

namespace scheduler {

namespace {

std::string pickled_runtime_error(const std::string& text) {
  // PROTO 4, STACK_GLOBAL builtins.RuntimeError, BINUNICODE text, TUPLE1, REDUCE, STOP.
  std::string pickle("\x80\x04\x8c\x08" "builtins\x8c\x0c" "RuntimeError\x93X");
  const auto size = static_cast<std::uint32_t>(text.size());
  for (int shift : {0, 8, 16, 24}) pickle.push_back(static_cast<char>(size >> shift & 0xff));
  pickle += text;
  pickle += "\x85R.";
  return pickle;
}

}  // namespace

GraphError runtime_error(std::string text) {
  GraphError error;
  error.exception = protocol::pickled_bytes_payload(pickled_runtime_error(text));
  error.traceback = protocol::nil_payload();
  error.exception_text = "RuntimeError('" + text + "')";
  return error;
}

GraphError reported_error(protocol::Value header) {
  GraphError error;
  const auto exception = header.find("exception").as_bin();
  const auto traceback = header.find("traceback").as_bin();
  const auto text = header.find("exception_text").as_str();
  error.exception_text = std::string(text.value_or(""));
  error.traceback_text = std::string(header.find("traceback_text").as_str().value_or(""));
  if (!exception) return runtime_error("The graph could not be read: " + error.exception_text);
  // One error answers every key of the graph: as frames, a message holds it once.
  error.exception = protocol::pickled_bytes_payload(*exception);
  error.traceback =
      traceback ? protocol::pickled_bytes_payload(*traceback) : protocol::nil_payload();
  return error;
}

}  // namespace scheduler
