#include "protocol/wire/errors.h"

#include "protocol/wire/fields.h"

namespace protocol {

void write(MessageWriter& writer, const ErrorReply& message) {
  writer.map(5);
  writer.field("status");
  if (message.status == ErrorStatus::uncaught) {
    writer.literal("uncaught-error");
  } else {
    writer.literal("error");
  }
  writer.field("exception");
  writer.payload(message.exception);
  writer.field("traceback");
  writer.payload(message.traceback ? message.traceback : nil_payload());
  writer.field("exception_text");
  writer.str(message.exception_text);
  writer.field("traceback_text");
  writer.str(message.traceback_text);
}

std::optional<ErrorReply> as_error(const Message& message) {
  const Value root = message.root();
  const bool uncaught = root.find("status").equals("uncaught-error");
  if (!uncaught && !root.find("status").equals("error")) return std::nullopt;
  Fields fields(message, root, "error reply");
  ErrorReply reply;
  reply.status = uncaught ? ErrorStatus::uncaught : ErrorStatus::handled;
  reply.exception = fields.payload_or_nil("exception");
  reply.traceback = fields.payload_or_nil("traceback");
  reply.exception_text = fields.str_or("exception_text", "");
  reply.traceback_text = fields.str_or("traceback_text", "");
  return reply;
}

void write_error(MessageWriter& writer, const PythonError& error, ErrorStatus status) {
  const std::string text = error.repr();
  write(writer, ErrorReply{status, bin_payload(pickle_exception(error)), nullptr, text, ""});
}

PythonError python_error(const Error& error) {
  switch (error.fault) {
    case Fault::bad_type:
    case Fault::truncated: return {"TypeError", error.where};
    case Fault::io:
    case Fault::closed: return {"OSError", error.where};
    case Fault::timeout: return {"TimeoutError", error.where};
    case Fault::too_large:
    case Fault::too_deep:
    case Fault::unknown_op: break;
  }
  return {"ValueError", error.text()};
}

}  // namespace protocol
