"""Errors on their way to a client, in the words and with the traceback stock would send."""

from __future__ import annotations

from rask.errors import message_of


def error(number: int, e: BaseException) -> dict:
    """The message that says what went wrong with a submission or an upload."""
    message = message_of(e)
    traceback = message["traceback"]
    return {
        "op": "error",
        "id": number,
        "exception": message["exception"].data,
        "traceback": traceback.data if traceback is not None else None,
        "exception_text": message["exception_text"],
        "traceback_text": message["traceback_text"],
    }
