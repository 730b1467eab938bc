//! Errors as Dask sends them: a reply that makes the caller raise.
//!
//! The exception travels as a pickle in plain msgpack bytes, which every receiver accepts; the
//! traceback is nil, for there is no Python frame to show. Answers to: distributed/core.py,
//! error_message; protocol.md 3.2.
#pragma once

#include <string_view>

#include "protocol/base/payload.h"
#include "protocol/base/result.h"
#include "protocol/wire/message.h"
#include "protocol/wire/pickles.h"
#include "protocol/wire/writer.h"

namespace protocol {

enum class ErrorStatus : std::uint8_t {
  uncaught,  //!< "uncaught-error": the caller's rpc raises by itself
  handled,   //!< "error": the caller looks at the reply (run, plugins)
};

struct ErrorReply {
  ErrorStatus status = ErrorStatus::uncaught;
  PayloadRef exception;
  PayloadRef traceback;  //!< null: nil
  std::string_view exception_text;
  std::string_view traceback_text;
};
void write(MessageWriter& writer, const ErrorReply& message);
//! Reads a reply that has such a status; nullopt if it has not.
std::optional<ErrorReply> as_error(const Message& message);

//! Writes an error made here.
void write_error(MessageWriter& writer, const PythonError& error,
                 ErrorStatus status = ErrorStatus::uncaught);

//! What a failure of ours is called in Python: TypeError for a bad field, as stock raises it for
//! bad keywords; OSError for a lost peer; TimeoutError; ValueError otherwise.
PythonError python_error(const Error& error);

}  // namespace protocol
