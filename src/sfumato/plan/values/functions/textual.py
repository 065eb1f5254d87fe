"""Text functions, on Unicode code points that are compared by their UTF-8 bytes; a space is U+0020.

Joined and replaced texts are truncated at LONGEST letters, so texts cannot grow.

Every text has a maximum length: that of its column, at which the scan truncates it, or one derived from the arguments.
So the letters that a function reads, and the bytes it allocates before truncation, are known before it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sfumato.errors import Unsupported
from sfumato.plan.values.expressions import Call, Expression, Literal
from sfumato.plan.values.functions.declaring import (
    FOLDING,
    boolean_domain,
    call,
    declare_function,
    is_any_nullable,
    is_never_null,
    is_null_literal,
    literal,
    null_literal,
    require_literal,
    require_text,
    type_mismatch_refusal,
)
from sfumato.plan.values.regular_expressions import LONGEST_TEXT, Search, full_match_pattern, parse_pattern
from sfumato.policy.domains import MAX_TEXT_LENGTH, Domain, Type

TypedCall = tuple[Sequence[Expression], Domain]

LONGEST = MAX_TEXT_LENGTH
"""The most letters of joined texts: memory could otherwise run out for one person's row alone."""
MAX_JOINED = 100
"""The most texts joined at once: engines nest them."""
_BYTES = 4  # of one letter, at most
_REPLACEMENT = 32
_FARTHEST = 2**31


def _text_domain(max_length: int, *operands: Expression) -> Domain:
    return Domain(Type.TEXT, nullable=is_any_nullable(*operands), max_length=max(1, min(max_length, LONGEST)))


def _reading_cost(node: Call) -> int:
    """Return the steps for reading every letter at the highest price: one of four bytes, or one that is replaced."""
    return 10 + 5 * sum(argument.domain.max_letters for argument in node.arguments)


def _folding_cost(node: Call) -> int:
    """Return the steps for case folding: letters beyond ASCII are looked up, and a few are then replaced."""
    return 10 + FOLDING * node.arguments[0].domain.max_letters


def _result_bytes(node: Call) -> int:
    return _BYTES * node.domain.max_letters


def _case_conversion(x: Expression) -> TypedCall:
    return (require_text(x),), _text_domain(x.domain.max_letters, x)


def _trim(x: Expression, letters: Expression | None = None) -> TypedCall:
    if letters is None:
        return _case_conversion(x)
    require_literal(letters, Type.TEXT, "the characters to trim", example="' .'")
    return (require_text(x), letters), _text_domain(x.domain.max_letters, x)


def _trimming_cost(node: Call) -> int:
    """Return the steps for looking up every letter among those to trim."""
    trimmed_letters = node.arguments[1].domain.max_letters if len(node.arguments) > 1 else 1
    return 10 + node.arguments[0].domain.max_letters * (5 + trimmed_letters)


declare_function(
    "LOWER",
    "LOWER(text)",
    "in lower case, letter by letter, whatever the context: İ is i, Σ is σ",
    row_cost=_folding_cost,
    row_bytes=_result_bytes,
)(_case_conversion)
declare_function(
    "UPPER",
    "UPPER(text)",
    "in upper case, letter by letter: a letter without a single capital stays, and ẞ is written ß",
    row_cost=_folding_cost,
    row_bytes=_result_bytes,
)(_case_conversion)
for _name, _where in {"TRIM": "at either end", "LTRIM": "at the start", "RTRIM": "at the end"}.items():
    declare_function(
        _name,
        f"{_name}(text [, 'letters'])",
        f"without spaces (or these characters) {_where}",
        row_cost=_trimming_cost,
        row_bytes=_result_bytes,
    )(_trim)


def _require_position(x: Expression) -> Expression:
    """Require an integer with a range that the engine's text functions take."""
    if is_null_literal(x):
        return null_literal(Type.INTEGER)
    if x.domain.type is not Type.INTEGER:
        raise type_mismatch_refusal(x, Type.INTEGER)
    bounds = x.domain.range
    if bounds is None or max(abs(int(bound)) for bound in bounds) > _FARTHEST:  # type: ignore[arg-type]
        raise Unsupported(
            "unbounded-position",
            "a position or length in a text must have a known range",
            fix="write it as a number, or as LEAST(GREATEST(…, 0), 100)",
        )
    return x


@declare_function(
    "SUBSTR",
    "SUBSTR(text, start [, length])",
    "the part from character start on, counted from 1, or from the end where start < 0",
    row_cost=_reading_cost,
    row_bytes=_result_bytes,
)
def _substr(x: Expression, start: Expression, length: Expression | None = None) -> TypedCall:
    positions = [_require_position(position) for position in (start, length) if position is not None]
    return (require_text(x), *positions), _text_domain(x.domain.max_letters, x, *positions)


def _prefix_or_suffix(x: Expression, count: Expression) -> TypedCall:
    letters = x.domain.max_letters
    if isinstance(count, Literal) and isinstance(count.value, int) and count.value >= 0:
        letters = min(letters, count.value)
    return (require_text(x), _require_position(count)), _text_domain(letters, x, count)


declare_function(
    "LEFT",
    "LEFT(text, n)",
    "the first n characters; all but the last -n where n < 0",
    row_cost=_reading_cost,
    row_bytes=_result_bytes,
)(_prefix_or_suffix)
declare_function(
    "RIGHT",
    "RIGHT(text, n)",
    "the last n characters; all but the first -n where n < 0",
    row_cost=_reading_cost,
    row_bytes=_result_bytes,
)(_prefix_or_suffix)


@declare_function("LENGTH", "LENGTH(text)", "the number of characters", row_cost=_reading_cost)
def _length(x: Expression) -> TypedCall:
    x = require_text(x)
    lengths = [0, x.domain.max_letters] if x.domain.values is None else [len(str(value)) for value in x.domain.values]
    return (x,), Domain(Type.INTEGER, bounds=(min(lengths), max(lengths)), nullable=x.domain.nullable)


def _joined_bytes(node: Call) -> int:
    """Return the bytes of all letters, before truncation."""
    return _BYTES * sum(argument.domain.max_letters for argument in node.arguments)


def _texts_and_letters(operands: Sequence[Expression]) -> tuple[list[Expression], int]:
    """Return the joined texts, and their letters in all."""
    if len(operands) > MAX_JOINED:
        raise Unsupported("joined", f"at most {MAX_JOINED} texts can be joined at once", fix="join fewer texts")
    texts = [require_text(operand) for operand in operands]
    return texts, sum(joined_text.domain.max_letters for joined_text in texts)


@declare_function(
    "CONCAT",
    "CONCAT(text, …)",
    f"the texts joined, NULL ones skipped; cut at {LONGEST:,} characters",
    row_cost=_reading_cost,
    row_bytes=_joined_bytes,
)
def _concat(x: Expression, *others: Expression) -> TypedCall:
    texts, letters = _texts_and_letters((x, *others))
    nullable = not any(map(is_never_null, texts)) and is_any_nullable(*texts)
    return texts, replace(_text_domain(letters), nullable=nullable)


@declare_function(
    "||",
    "text || text",
    f"the texts joined, NULL where one is NULL; cut at {LONGEST:,} characters",
    row_cost=_reading_cost,
    row_bytes=_joined_bytes,
)
def _concat_operator(x: Expression, *others: Expression) -> TypedCall:
    texts, letters = _texts_and_letters((x, *others))
    return texts, _text_domain(letters, *texts)


def _replaced_letters(node: Call) -> int:
    """Return the most letters before truncation: occurrences of the old text side by side, all replaced."""
    letters, old, new = (argument.domain.max_letters for argument in node.arguments)
    return max(letters, letters // max(1, old) * new + letters % max(1, old))


def _replacing_cost(node: Call) -> int:
    """Return the steps for comparing the old text at every letter."""
    letters, old, _ = (argument.domain.max_letters for argument in node.arguments)
    return 10 + letters * (2 + old) + _replaced_letters(node)


@declare_function(
    "REPLACE",
    "REPLACE(text, 'old', 'new')",
    f"with every old replaced by new; cut at {LONGEST:,} characters",
    row_cost=_replacing_cost,
    row_bytes=lambda node: _BYTES * _replaced_letters(node),
)
def _replace(x: Expression, old: Expression, new: Expression) -> TypedCall:
    require_literal(old, Type.TEXT, "the text to replace")
    if len(str(require_literal(new, Type.TEXT, "the replacement"))) > _REPLACEMENT:
        rule = f"the replacement can have at most {_REPLACEMENT} characters"
        fix = "shorten the replacement; for whole values, use CASE WHEN x = 'old' THEN 'new' ELSE x END"
        raise Unsupported("replacement", rule, fix=fix)
    converted = require_text(x), old, new
    max_letters = _replaced_letters(Call("REPLACE", converted, x.domain))
    return converted, _text_domain(max_letters, x)


def _pattern_searches(node: Call) -> tuple[Search, ...]:
    pattern = node.arguments[1]
    assert isinstance(pattern, Literal)
    return parse_pattern(str(pattern.value))


_PATTERN_STEP = 4  # for one step of the matching, on the engine that takes the most
_PATTERN_CALL = 100  # to begin a search


def _matching_cost(node: Call) -> int:
    """Return the steps of all searches of a pattern, by the number of ways in which it can match a text."""
    letters = node.arguments[0].domain.max_letters
    return sum(_PATTERN_CALL + _PATTERN_STEP * search.steps(letters) for search in _pattern_searches(node))


@declare_function(
    "REGEXP_MATCHES",
    "REGEXP_MATCHES(text, 'pattern')",
    "true where the text contains the pattern, which can use letters, ., [a-z], \\d \\w \\s, (a|b), * + ? {2,5}, ^ at "
    "the start and $ at the end, as in RE2; a limit on its cost applies",
    row_cost=_matching_cost,
)
def _regexp_matches(x: Expression, pattern: Expression) -> TypedCall:
    x, written_pattern = require_text(x), str(require_literal(pattern, Type.TEXT, "the pattern", example="'J.*'"))
    searches = parse_pattern(written_pattern)
    if x.domain.max_letters > LONGEST_TEXT:
        rule = f"regular expressions are matched against texts of at most {LONGEST_TEXT:,} characters"
        raise Unsupported(
            "regex",
            rule,
            fix=f"declare max_length = {LONGEST_TEXT} for the column in the policy, or match LEFT(x, {LONGEST_TEXT})",
        )
    for search in searches:
        search.steps(x.domain.max_letters)  # refuses what takes too many
    return (x, pattern), boolean_domain(x)


@declare_function("REGEXP_FULL_MATCH", "REGEXP_FULL_MATCH(text, 'pattern')", "true where the pattern is the whole text")
def _regexp_full_match(x: Expression, pattern: Expression) -> Expression:
    whole = full_match_pattern(str(require_literal(pattern, Type.TEXT, "the pattern", example="'J.*'")))
    return call("REGEXP_MATCHES", x, literal(Type.TEXT, whole))


@declare_function(
    "STARTS_WITH", "STARTS_WITH(text, start)", "true where the text begins with start", row_cost=_reading_cost
)
def _starts_with(x: Expression, start: Expression) -> TypedCall:
    converted = require_text(x), require_text(start)
    return converted, boolean_domain(*converted)
