"""Parameters of errors as JSON values (exact numbers are texts), and each error's exit code and HTTP status.

Fixes for refused parameters: the closest allowed spelling, or an allowed value as an example.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from sfumato.number_formats import exact_text, format_rounded_down, parse_optional_exact

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
    if isinstance(value, (tuple, list)) and any(isinstance(part, Fraction) for part in value[:_MAX_FACT_PARTS]):
        parts = [_repr_text(part, longest) for part in value[:_MAX_FACT_PARTS]]
        joined = ", ".join([*parts, *["…"] * (len(value) > _MAX_FACT_PARTS)])
        return f"[{joined}]" if isinstance(value, list) else f"({joined}{',' * (len(parts) == 1)})"
    return repr(value[:longest]) if isinstance(value, str) else repr(value)


_MAX_FACT_PARTS = 20
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


_SENTENCE_WORDS = frozenset(
    {"above", "act", "against", "ask", "at", "beside", "bounded", "by", "case", "clipped", "closed", "cover", "ends"}
    | {"equals", "every", "expires", "false", "for", "free", "fresh", "given", "implies", "in", "least", "listed"}
    | {"make", "miss", "more", "most", "moved", "named", "nullable", "of", "on", "only", "other", "over", "per"}
    | {"planned", "possible", "predicted", "range", "reached", "right", "robust", "sampled", "set", "share"}
    | {"spent", "split", "to", "together", "true", "until", "where", "who", "with", "within", "worst"}
)
"""Names of parameters that read as another word of the sentence unless they are quoted."""
_USUAL_VALUES = {"epsilon": "0.5", "rho": "0.01", "delta": "1e-9", "confidence": "0.95"}
"""Examples of parameters that have a common value."""
_MAX_PARTS = 60
"""The most alternatives that a rule is searched for."""
_MAX_BITS = 512
"""Of an integer that is printed: Python refuses to write very long ones."""
_MAX_ENTRIES = 9
"""The most entries of a list that is an example."""
_BOOLEANS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "True or False": {"True": ("1", "yes", "y", "true", "on"), "False": ("0", "no", "n", "false", "off")},
    "true or false": {"true": ("1", "yes", "y", "true", "on"), "false": ("0", "no", "n", "false", "off")},
    "on or off": {"on": ("1", "yes", "y", "true"), "off": ("0", "no", "n", "false")},
}
"""By the words of a rule, what people write instead of each of its two values."""
_LISTS = ("a list", "a tuple", "a non-empty list", "a non-empty tuple", "lists", "sets", "different", "distinct")
_TEXT_LISTS = ("a list of strings", "a list of names")
_TEXTS = ("a string", "text", "a text", "printable text")
_NUMBER = r"-?[0-9][0-9.,e^-]*"
_LEFT_OUT_BESIDE = re.compile(r"left out(?: if|, since) (\w+) is given$")
_AFTER_SUCH_AS = re.compile(r"(?:,? such as|, as in) (\[.*\]|\{.*\}|(?:[^;:]|:(?=\S))+)")
_ALTERNATIVES = re.compile(
    r"(?:one of|a column|the name|a declared value|a list of|one or two|different|sets)\b[^:]*: (.+)"
)
_LIST_OF_NAMES = re.compile(r"(?:one of|a list of names from|one of the columns|(?:a list|sets) of [^:]* among) (.+)")
_ONE_OF_ONE = re.compile(r"one of ([^\W\d]\w*)")
_ONLY_CHOICE = re.compile(r"('\w+'), the only choice")
_NUMBERS = re.compile(
    rf"a (?:non-empty )?(?:list|tuple|sequence) of (?:different |ascending )?(whole )?numbers"
    rf"(?: from ({_NUMBER}) to ({_NUMBER})| ≥ ({_NUMBER}))?(?:,.*)?"
)
_ONE_OR_MORE = re.compile(r"\b(?:one or more|at least one|non-empty|a list of 1 to|a tuple of 1 to)\b")
_UNIT_INTERVAL = re.compile(
    r"a number in [(\[]0, 1[)\]]|a number from 0 to 1|(?:strictly )?between 0 and 1\b.*|a probability .*|a share .* 1"
)
_REAL_NUMBER = re.compile(
    r"(?:a|a finite) number(?: (?:of \w+ )?(?:> 0|≥ 0|above 0)|, Infinity or -Infinity| that is 0 or .*)?"
    r"|above 0|positive"
)
_FROM_TO = re.compile(
    rf"(?:0, or )?(?:a (?:whole )?(?:number|price)\b[a-z ]* )?(?:from|between) ({_NUMBER}) (?:to|and) "
    r"(−?[0-9][0-9.,e^]*).*"
)
_WHOLE_NUMBER = re.compile(r"a whole number(?: ≥ ([0-9]+)| of at least ([0-9]+)| of at most .*|\b[^0-9]*)")
_COUNTED_NUMBERS = re.compile(r"a (?:list|tuple) of (?:length )?(1?[0-9])(?: (?:whole )?numbers|, with a number)\b.*")
_AT_MOST = re.compile(rf".* at most ({_NUMBER})")
_INDICES = re.compile(r"a list of column indices, each from ([0-9]+) to ([0-9]+)")
_UPPER_LIMIT = re.compile(rf"(?:a (?:whole )?number )?(?:of )?(?:at most|up to) ({_NUMBER}).*")
_LOWER_LIMIT = re.compile(rf"at least ({_NUMBER})\b.*")


def quote_parameter(parameter: str) -> str:
    """Return the name of a parameter, in double quotes if it would be read as a word of the sentence."""
    return f'"{parameter}"' if len(parameter) == 1 or parameter in _SENTENCE_WORDS else parameter


def name_only_choice(allowed: str) -> str:
    """Return the words of a rule; "one of a" becomes "'a', the only choice".

    >>> name_only_choice("one of visits"), name_only_choice("one of visits, wards")
    ("'visits', the only choice", 'one of visits, wards')
    """
    found = _ONE_OF_ONE.fullmatch(allowed)
    return f"{found[1]!r}, the only choice" if found else allowed


def join_with_or(parts: Sequence[str]) -> str:
    """Return "a, b or c"."""
    return " or ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def suggest_fix(parameter: str, value: object, allowed: str) -> str:
    """Return what to do about a refused value, given the words of its rule; empty where the rule says it all."""
    name = quote_parameter(parameter)
    if allowed.startswith("left out"):
        beside = _LEFT_OUT_BESIDE.match(allowed)
        return f"leave out either {name} or {quote_parameter(beside[1])}" if beside else ""
    return next(_suggestions(parameter, name, value, allowed), "")


def _suggestions(parameter: str, name: str, value: object, allowed: str) -> Iterator[str]:
    is_list = allowed.startswith(_LISTS)
    repeated = _repeated(value)
    if repeated is not None and re.search(r"different|distinct|repeat|twice|once", allowed):
        yield f"remove the second {repeated} from {name}"
    if re.search(r"(increasing|ascending|rising) order", allowed) and not _is_sorted(value):
        yield f"sort the values of {name}"
    if isinstance(value, (list, tuple)) and not value and _ONE_OR_MORE.search(allowed):
        yield f"give {name} at least one entry"
    if (entry_fix := _replaced_entry(value, allowed)) is not None:
        yield entry_fix
    choices = _choices(allowed)
    is_list |= bool(choices) and isinstance(value, (list, tuple))
    close = _closest(value, choices)
    if only := _ONLY_CHOICE.fullmatch(allowed):
        yield f"set {name} to {only[1]}"
    for boolean, synonyms in _BOOLEANS.get(allowed, {}).items():
        if type(value) in (int, str) and str(value)[:10].lower() in synonyms:
            yield f"set {name} to {boolean}"
    if close:
        yield f"did you mean {close}?"
    elif choices and is_list:
        yield f'for example, set {name} to ["{choices[0]}"]'
    elif choices:
        yield f"for example, set {name} to {choices[0]}"
    if example := _example(parameter, value, allowed):
        is_of_each_entry = allowed.startswith(("above", "at least", "at most", "between", "from", "positive", "up to"))
        entries = [example] * len(value) if is_of_each_entry and isinstance(value, (list, tuple)) else []
        if len(entries) <= _MAX_ENTRIES:
            shown = f"[{', '.join(entries)}]" if entries else example
            yield f"for example, set {name} to {shown}"
    if isinstance(value, ValueWords):
        return
    if is_list and not isinstance(value, (list, tuple)):
        is_text = isinstance(value, str) and value.isprintable() and len(value) <= 40
        if is_text and allowed.startswith(_TEXT_LISTS):
            yield f'set {name} to ["{value}"]'
        yield f"write {name} as a list in square brackets, with commas between the values"
    if allowed.startswith("a mapping") and not isinstance(value, Mapping):
        yield f"write {name} as {{name: value, …}}"
    if allowed == "a list of strings":
        yield f"write every entry of {name} in quotes"
    if allowed.startswith(_TEXTS) and not isinstance(value, str):
        yield f'set {name} to "{value}", in quotes' if _is_short_integer(value) else f"write {name} as text in quotes"


def _repeated(value: object) -> str | None:
    """Return the first text or number that a list contains twice, as it is typed."""
    if not isinstance(value, (list, tuple)):
        return None
    entry_texts = [repr(entry)[:60] for entry in value[:_MAX_PARTS] if _is_plain(entry)]
    return next((entry for index, entry in enumerate(entry_texts) if entry in entry_texts[:index]), None)


def _replaced_entry(value: object, allowed: str) -> str | None:
    """Return how to correct the first entry of a list that a rule about numbers does not allow."""
    match = _NUMBERS.fullmatch(allowed)
    if match is None or not isinstance(value, (list, tuple)):
        return None
    limit_texts = (match[2] or match[4] or "-inf", match[3] or "inf")
    try:
        low, high = (float(text.replace(",", "")) for text in limit_texts)
    except ValueError:  # such as 2^62
        return None
    noun = "a whole number" if match[1] else "a number"
    limits = f" from {match[2]} to {match[3]}" if match[2] else f" ≥ {match[4]}" if match[4] else ""
    for entry in filter(_is_plain, value[:_MAX_PARTS]):
        if isinstance(entry, str) and not match[1]:
            continue  # the text of an exact number
        is_number = type(entry) is int or (type(entry) is float and not match[1])
        if not is_number or not low <= entry <= high:
            return f"replace {repr(entry)[:40]} by {noun}{limits}"
    return None


def _is_plain(entry: object) -> bool:
    """Return whether a refused value, or each part of a pair, is compared and printed by code that cannot fail."""
    parts = entry if type(entry) is tuple else (entry,)
    return all(type(part) in (str, float, bool) or _is_short_integer(part) for part in parts)


def _is_short_integer(value: object) -> bool:
    return type(value) is int and value.bit_length() <= _MAX_BITS


def _is_sorted(value: object) -> bool:
    """Return whether a value is a sorted list, or no list of plain, comparable values."""
    if not isinstance(value, (list, tuple)) or not all(map(_is_plain, value)):
        return True
    try:
        return list(value) == sorted(value)
    except TypeError:
        return True


def _choices(allowed: str) -> list[str]:
    """Return the alternatives that a rule lists, such as "one of a, b, c", "a or b" or "…: a, b, c"."""
    if match := _ALTERNATIVES.fullmatch(allowed) or _LIST_OF_NAMES.fullmatch(allowed):
        alternatives = match[1].removeprefix("the columns ")
    elif allowed.count(" or ") == 1:
        alternatives = allowed
    else:
        return []
    parts = re.split(r", or |, | or ", alternatives)
    has_words = any(" " in part and part[0] not in "'\"" for part in parts)
    return parts if len(parts) <= _MAX_PARTS and not has_words else []


def _closest(value: object, choices: Sequence[str]) -> str | None:
    """Return the choice that a text misspells."""
    from difflib import get_close_matches

    if not isinstance(value, str):
        return None
    by_spelling = {choice.strip("\"'").lower(): choice for choice in choices if choice != value}
    close = get_close_matches(value[:60].lower(), by_spelling, n=1, cutoff=0.7)
    return by_spelling[close[0]] if close else None


def _exceeds(value: object, limit: str) -> bool:
    """Return whether a number, or the text of one, is above a limit that is written in digits."""
    if not limit.replace(".", "").isdecimal() or type(value) not in (int, float, str, Fraction, Decimal):
        return False
    try:
        return (float(value[:40]) if isinstance(value, str) else value) > float(limit)  # type: ignore[operator]
    except ValueError:
        return False


def _example(parameter: str, value: object, allowed: str) -> str:
    """Return an allowed value: the example of the rule, the nearest limit, or a usual one."""
    if match := _AFTER_SUCH_AS.search(allowed):
        is_bare_entry = allowed.startswith("a list") and match[1][0] not in "[{"
        return f"[{match[1].replace(' and ', ', ')}]" if is_bare_entry else re.split(r",? or ", match[1])[0]
    if match := _COUNTED_NUMBERS.fullmatch(allowed):
        return f"[{', '.join(['1'] * int(match[1]))}]"
    if match := _INDICES.fullmatch(allowed):
        return f"[{', '.join(dict.fromkeys(match.groups()))}]"
    if _UNIT_INTERVAL.fullmatch(allowed):
        return _USUAL_VALUES.get(parameter, "0.5")
    if _REAL_NUMBER.fullmatch(allowed):
        return _USUAL_VALUES.get(parameter, "1")
    if match := _FROM_TO.fullmatch(allowed):
        low, high = (limit.replace(",", "").rstrip(".") for limit in match.groups())
        if parameter not in _USUAL_VALUES and _exceeds(value, high):
            return high
        return _USUAL_VALUES.get(parameter, "1" if "e-" in low else low)
    if (match := _AT_MOST.fullmatch(allowed)) and _exceeds(value, high := match[1].replace(",", "").rstrip(".")):
        return high
    if match := _WHOLE_NUMBER.fullmatch(allowed):
        least = int(match[1] or match[2] or 0)
        is_below = type(value) in (int, float) and value < least  # type: ignore[operator]
        return str(least if is_below else max(10, least))
    if match := _UPPER_LIMIT.fullmatch(allowed) or _LOWER_LIMIT.fullmatch(allowed):
        return match[1].replace(",", "")
    return ""


def error_message(rule: str, place: str, fix: str) -> str:
    """Return the text of an error: its rule, and below it the place and, if there is one, the fix."""
    return f"{rule}\n  place: {place}" + (f"\n  fix:   {fix}" if fix else "")


def parse_exact_fact(value: Any) -> Any:
    """Parse an exact number, or each of a mapping, from its text; None stays None."""
    if isinstance(value, dict):
        return {key: parse_optional_exact(text) for key, text in value.items()}
    return parse_optional_exact(value)
