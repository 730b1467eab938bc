"""What is told of an exception, in stock's form; it never raises, whatever the exception does.

Answers to: distributed.core.error_message.
"""

from __future__ import annotations

from distributed.core import error_message


def message_of(error: BaseException, status: str = "error") -> dict:
    """Stock's message of the error being handled; if its own text raises, of what came of asking for it."""
    try:
        return error_message(error, status)
    except Exception as another:
        try:
            return error_message(another, status)
        except Exception:
            return error_message(RuntimeError(f"{type(error).__name__}, whose text cannot be had"), status)
