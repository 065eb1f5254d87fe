"""Parameters of errors as JSON values (exact numbers are texts), and each error's exit code and HTTP status."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from sfumato.number_formats import exact_text, format_rounded_down

MAX_FACT_LENGTH = 1_000
"""The most characters of a text in a fact."""


class ValueWords(str):
    """Words about a refused value that is not itself shown: printed without the quotes of a caller's own text."""


def shorten(value: object, width: int = 60) -> str:
    """Return the ``repr`` of a caller's own parameter, truncated to ``width`` characters; exact numbers as digits."""
    if isinstance(value, int) and value.bit_length() > 512:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, Fraction) and _bits(value) > _MAX_WRITTEN_BITS:  # a million digits take a minute to write
        return f"a fraction of {_bits(value)} bits"
    if isinstance(value, ValueWords):
        return value[:MAX_FACT_LENGTH] + ""
    try:
        text = _repr_text(value, 4 * width)
    except Exception:  # a hostile __repr__ must not hide the refusal
        text = f"<{type(value).__name__}>"
    if len(text) > width and isinstance(value, Fraction):
        return f"about {Decimal(value.numerator) / Decimal(value.denominator):.6g}"
    return text if len(text) <= width else text[: width - 1] + "…"


_MAX_WRITTEN_BITS = 1 << 13


def _bits(value: Fraction) -> int:
    return max(map(int.bit_length, value.as_integer_ratio()))


def shorten_to_line(value: object) -> str:
    """Shorten as ``shorten`` does, or name the type of a value that prints several lines."""
    text = shorten(value)
    return text if "\n" not in text else f"a value of type {type(value).__name__}"


def _repr_text(value: object, longest: int) -> str:
    if isinstance(value, Fraction):
        return exact_text(value)
    if isinstance(value, (tuple, list)) and any(isinstance(part, Fraction) for part in value[:_MAX_PARTS]):
        parts = [_repr_text(part, longest) for part in value[:_MAX_PARTS]]
        joined = ", ".join([*parts, *["…"] * (len(value) > _MAX_PARTS)])
        return f"[{joined}]" if isinstance(value, list) else f"({joined}{',' * (len(parts) == 1)})"
    return repr(value[:longest]) if isinstance(value, str) else repr(value)


_MAX_PARTS = 20
"""The most parts of a list of exact numbers that are shown."""


def to_json_value(value: object) -> Any:
    """Convert a value for JSON; a caller's own parameter is truncated as in the error's text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if value.bit_length() <= 512 else shorten(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, Fraction):
        return exact_text(value) if _bits(value) <= _MAX_WRITTEN_BITS else shorten(value)
    return value[:MAX_FACT_LENGTH] + "" if isinstance(value, str) else shorten(value)


def exhausted_budget_message(largest: Fraction) -> str:
    """Say that no useful answer can be paid for any more."""
    if not largest:
        return "no ordinary answer can be paid for any more"
    return f"what is left, ε = {format_rounded_down(largest)}, is too little for a useful answer"


class ErrorOutcome(NamedTuple):
    """The exit code of a command and the HTTP status of a request that an error ends."""

    exit_code: int
    http_status: int


OUTCOMES: Mapping[str, ErrorOutcome] = {
    "refused": ErrorOutcome(1, 400),
    "invalid-parameter": ErrorOutcome(2, 400),
    "invalid-request": ErrorOutcome(2, 400),
    "body-too-large": ErrorOutcome(2, 413),
    "neighbours-differ": ErrorOutcome(1, 400),
    "invalid-policy": ErrorOutcome(1, 400),
    "invalid-settings": ErrorOutcome(1, 400),
    "unsupported": ErrorOutcome(1, 422),
    "overspent": ErrorOutcome(3, 402),
    "unanswered": ErrorOutcome(4, 503),
    "equal-question-stopped": ErrorOutcome(75, 503),
    "answer-pending": ErrorOutcome(75, 503),
    "draining": ErrorOutcome(75, 503),
    "entropy-stuck": ErrorOutcome(1, 500),
    "engine-failed": ErrorOutcome(1, 500),
    "engine-closed": ErrorOutcome(1, 503),
    "source-changed": ErrorOutcome(1, 409),
    "source-taken": ErrorOutcome(1, 409),
    "session-closed": ErrorOutcome(1, 409),
    "session-interrupted": ErrorOutcome(75, 503),
    "account-differs": ErrorOutcome(1, 409),
    "already-answered": ErrorOutcome(1, 409),
    "request-differs": ErrorOutcome(1, 409),
    "approval-needed": ErrorOutcome(1, 403),
    "request-decided": ErrorOutcome(1, 409),
    "synopsis-damaged": ErrorOutcome(1, 400),
    "bundle-damaged": ErrorOutcome(1, 400),
    "tab-closed": ErrorOutcome(1, 409),
    "not-signed-in": ErrorOutcome(1, 401),
    "not-allowed": ErrorOutcome(1, 403),
    "not-there": ErrorOutcome(1, 404),
    "paused": ErrorOutcome(75, 503),
    "too-many-requests": ErrorOutcome(75, 429),
    "server-unavailable": ErrorOutcome(75, 503),
    "ledger-unavailable": ErrorOutcome(5, 503),
    "ledger-damaged": ErrorOutcome(5, 503),
    "ledger-in-doubt": ErrorOutcome(5, 503),
    "ledger-behind": ErrorOutcome(5, 503),
}
"""By the code of an error, or of its class."""
