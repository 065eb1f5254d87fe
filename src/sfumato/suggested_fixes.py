"""Fixes for refused parameters: the closest allowed spelling, or an allowed value as an example."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from sfumato.error_facts import ValueWords

_SENTENCE_WORDS = frozenset(
    {"above", "at", "by", "cover", "ends", "every", "false", "for", "free", "given", "in", "most", "of", "on", "only"}
    | {"over", "per", "range", "set", "share", "to", "true", "where", "with", "within"}
)
"""Names of parameters that read as another word of the sentence unless they are quoted."""
_USUAL_VALUES = {"epsilon": "0.5", "rho": "0.01", "delta": "1e-9", "confidence": "0.95"}
"""Examples of parameters that have a common value."""
_MAX_PARTS = 60
"""The most alternatives that a rule is searched for."""
_MAX_BITS = 512
"""Of an integer that is printed: Python refuses to write very long ones."""

_LISTS = ("a list", "a tuple", "a non-empty list", "a non-empty tuple", "lists", "sets", "different", "distinct")
_TEXT_LISTS = ("a list of strings", "a list of names")
_TEXTS = ("a string", "text", "a text", "printable text")
_NUMBER = r"-?[0-9][0-9.,e^-]*"

_AFTER_SUCH_AS = re.compile(r"(?:,? such as|, as in) (\[.*\]|\{.*\}|[^;:]+)")
_LISTED = re.compile(r"(?:one of|a column|the name|a declared value|a list of|one or two|different|sets)\b[^:]*: (.+)")
_NAMED_LIST = re.compile(r"(?:one of|a list of names from|one of the columns|(?:a list|sets) of [^:]* among) (.+)")
_UNIT_INTERVAL = re.compile(
    r"a number in [(\[]0, 1[)\]]|a number from 0 to 1|(?:strictly )?between 0 and 1\b.*|a probability .*|a share .* 1"
)
_REAL_NUMBER = re.compile(
    r"(?:a|a finite) number(?: (?:of \w+ )?(?:> 0|≥ 0|above 0)|, Infinity or -Infinity| that is 0 or .*)?"
    r"|above 0|positive"
)
_FROM_TO = re.compile(
    rf"(?:0, or )?(?:a (?:whole )?(?:number|price)\b[a-z ]* )?(?:from|between) ({_NUMBER}) (?:to|and) [0-9−].*"
)
_WHOLE_NUMBER = re.compile(r"a whole number(?: ≥ ([0-9]+)| of at least ([0-9]+)| of at most .*|\b[^0-9]*)")
_COUNTED_NUMBERS = re.compile(r"a (?:list|tuple) of (1?[0-9]) (?:whole )?numbers\b.*")
_INDICES = re.compile(r"a list of column indices, each from ([0-9]+) to ([0-9]+)")
_UPPER_LIMIT = re.compile(rf"(?:a (?:whole )?number )?(?:of )?(?:at most|up to) ({_NUMBER}).*")
_LOWER_LIMIT = re.compile(rf"at least ({_NUMBER})\b.*")


def quote_parameter(parameter: str) -> str:
    """Return the name of a parameter, in double quotes if it would be read as a word of the sentence."""
    return f'"{parameter}"' if len(parameter) == 1 or parameter in _SENTENCE_WORDS else parameter


def join_with_or(parts: Sequence[str]) -> str:
    """Return "a, b or c"."""
    return " or ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def suggest_fix(parameter: str, value: object, allowed: str) -> str:
    """Return what to do about a refused value, given the words of its rule."""
    name = quote_parameter(parameter)
    if allowed.startswith("left out"):
        return f"leave out {name}"
    return next(_suggestions(parameter, name, value, allowed), f"give another value for {name}")


def _suggestions(parameter: str, name: str, value: object, allowed: str) -> Iterator[str]:
    is_list = allowed.startswith(_LISTS)
    repeated = _repeated(value)
    if repeated is not None and re.search(r"different|distinct|repeat|twice|once", allowed):
        yield f"remove the second {repeated} from {name}"
    if re.search(r"(increasing|ascending|rising) order", allowed) and not _is_sorted(value):
        yield f"sort {name}"
    choices = _choices(allowed)
    is_list |= bool(choices) and isinstance(value, (list, tuple))
    close = _closest(value, choices)
    if close:
        yield f"did you mean {close}?"
    elif choices and is_list:
        yield f'for example, set {name} to ["{choices[0]}"]'
    elif len(choices) == 2:
        yield f"set {name} to {choices[0]} or {choices[1]}"
    elif choices:
        yield f"for example, set {name} to {choices[0]}"
    if example := _example(parameter, allowed):
        yield f"for example, set {name} to {example}"
    yield from _limits(name, allowed)
    if re.fullmatch(_NUMBER, allowed):
        yield f"set {name} to {allowed}"
    if allowed == "higher":
        yield f"give a higher {name}"
    if "array" in allowed and "shape" in allowed:
        yield f"change the shape of {name}"
    if isinstance(value, ValueWords):
        return
    if is_list and not isinstance(value, (list, tuple)):
        is_text = isinstance(value, str) and value.isprintable() and len(value) <= 40
        elements = f'"{value}"' if is_text and allowed.startswith(_TEXT_LISTS) else "…"
        yield f"put the values of {name} in a list, [{elements}]"
    if allowed.startswith("a mapping") and not isinstance(value, Mapping):
        yield f"give {name} as a mapping, {{name: value, …}}"
    if allowed == "a list of strings":
        yield f"write every entry of {name} as text in quotes"
    if allowed.startswith(_TEXTS) and not isinstance(value, str):
        yield f"give {name} as text in quotes" + (f': "{value}"' if _is_short_integer(value) else "")


def _repeated(value: object) -> str | None:
    """Return the first text or number that a list contains twice, as it is typed."""
    if not isinstance(value, (list, tuple)):
        return None
    shown = [repr(entry)[:60] for entry in value[:_MAX_PARTS] if _is_plain(entry)]
    return next((entry for index, entry in enumerate(shown) if entry in shown[:index]), None)


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
    if found := _LISTED.fullmatch(allowed) or _NAMED_LIST.fullmatch(allowed):
        listed = found[1].removeprefix("the columns ")
    elif allowed.count(" or ") == 1:
        listed = allowed
    else:
        return []
    parts = re.split(r", or |, | or ", listed)
    return parts if len(parts) <= _MAX_PARTS and not any(" " in part for part in parts) else []


def _closest(value: object, choices: Sequence[str]) -> str | None:
    """Return the choice that a text misspells."""
    from difflib import get_close_matches

    if not isinstance(value, str):
        return None
    by_spelling = {choice.strip("\"'").lower(): choice for choice in choices if choice != value}
    close = get_close_matches(value[:60].lower(), by_spelling, n=1, cutoff=0.7)
    return by_spelling[close[0]] if close else None


def _example(parameter: str, allowed: str) -> str:
    if found := _AFTER_SUCH_AS.search(allowed):
        is_bare_entry = allowed.startswith("a list") and found[1][0] not in "[{"
        return f"[{found[1].replace(' and ', ', ')}]" if is_bare_entry else found[1]
    if found := _COUNTED_NUMBERS.fullmatch(allowed):
        return f"[{', '.join(['1'] * int(found[1]))}]"
    if found := _INDICES.fullmatch(allowed):
        return f"[{', '.join(dict.fromkeys(found.groups()))}]"
    if _UNIT_INTERVAL.fullmatch(allowed):
        return _USUAL_VALUES.get(parameter, "0.5")
    if _REAL_NUMBER.fullmatch(allowed):
        return _USUAL_VALUES.get(parameter, "1")
    if found := _FROM_TO.fullmatch(allowed):
        low = found[1].replace(",", "")
        return _USUAL_VALUES.get(parameter, "1" if "e-" in low else low)
    if found := _WHOLE_NUMBER.fullmatch(allowed):
        return str(max(10, int(found[1] or found[2] or 0)))
    return ""


def _limits(name: str, allowed: str) -> Iterator[str]:
    if found := _UPPER_LIMIT.fullmatch(allowed):
        yield f"set {name} to {found[1].rstrip(',')} or less"
    if found := _LOWER_LIMIT.fullmatch(allowed):
        yield f"set {name} to {found[1].rstrip(',')} or more"
