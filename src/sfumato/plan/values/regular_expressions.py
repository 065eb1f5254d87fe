"""Regular expressions of bounded cost, which mean the same on every engine.

A pattern is parsed here and written anew from what all engines share: letters, brackets with ranges, alternatives,
groups and counts. It means what RE2 makes of it: ``.`` is any letter but a newline; ``\\d``, ``\\w`` and ``\\s`` are
ASCII; ``^`` and ``$`` are the ends of the text. There are no back-references, look-arounds, word boundaries or flags.

*Cost.* Some engines backtrack: they try the ways of matching one after the other. A way of matching is a run of the
pattern's position automaton (Glushkov, "The abstract theory of automata", 1961), in which each letter of the pattern is
a state and each repetition or sequence that leads from one letter to the next is an edge of its own. No part can match
the empty text in several ways: what is repeated matches no empty text, and of several alternatives at most one does. So
different ways are different runs, and from one start an engine takes, for each letter of the text, at most one step for
every run up to there and every edge that leaves it. ``Search.steps`` follows all multisets of runs that texts of one
length lead to, and adds up the most steps at each letter; it refuses a pattern for which they are too many, as those of
``(a+)+$`` are for all but short texts. A search without ``^`` is one from every letter. ∎
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache

from sfumato.errors import Unsupported
from sfumato.quick_dataclass import dataclass

LONGEST_PATTERN = 200
LONGEST_TEXT = 1_000
"""The most letters of a text that a pattern is matched with: engines recurse over repeated groups."""
MAX_POSITIONS = 300
MAX_REPEATS = 200
MAX_STEPS = 100_000
"""The most steps of one search in one text."""
_MAX_EXPLORED = 20_000
"""The most multisets of runs that are followed to bound the steps."""
_LAST_LETTER = 0x10FFFF

Ranges = tuple[tuple[int, int], ...]
"""Inclusive ranges of code points, sorted and apart."""


@dataclass(frozen=True)
class Letters:
    """One letter of a set."""

    ranges: Ranges


@dataclass(frozen=True)
class Concatenation:
    """Parts one after the other; no parts match the empty text."""

    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Alternatives:
    """One of several parts."""

    options: tuple[Part, ...]


@dataclass(frozen=True)
class Repetition:
    """A part so many times; any number from ``low`` on where ``high`` is None."""

    part: Part
    low: int
    high: int | None


Part = Letters | Concatenation | Alternatives | Repetition


@dataclass(frozen=True)
class Search:
    """A search for a part: anywhere in a text, or at its start, at its end, or as the whole of it."""

    part: Part
    at_start: bool
    at_end: bool

    @property
    def pattern(self) -> str:
        """The part in the notation that engines share."""
        return _pattern_text(self.part)

    def steps(self, text_length: int) -> int:
        """Return the most steps of a search in a text of so many letters."""
        starts = 1 if self.at_start else text_length + 1
        steps = _steps_from_one_start(self.part, text_length, MAX_STEPS // starts)
        if steps is None:
            size = f"a text of {text_length:,} characters"
            rule = f"this regular expression could take more than {MAX_STEPS:,} steps on {size}"
            fix = "begin it with ^, write counts such as {1,5} instead of * and +, or match LEFT(text, 20)"
            raise _regex_refusal(rule, fix)
        return starts * steps


@cache
def parse_pattern(pattern: str) -> tuple[Search, ...]:
    """Return the searches of which one must succeed, or raise ``Unsupported``; none where every text matches."""
    if len(pattern) > LONGEST_PATTERN:
        raise _regex_refusal(
            f"a regular expression can have at most {LONGEST_PATTERN} characters", "write a shorter pattern"
        )
    searches: dict[tuple[bool, bool], list[Part]] = {}
    for at_start, part, at_end in _PatternParser(pattern).parse_alternatives():
        trimmed = _without_needless_ends(part, at_start=at_start, at_end=at_end)
        if not trimmed.parts and not (at_start and at_end):
            return ()
        searches.setdefault((at_start, at_end), []).append(trimmed)
    merged_searches = tuple(
        Search(parts[0] if len(parts) == 1 else Alternatives(tuple(parts)), *anchors)
        for anchors, parts in searches.items()
    )
    for search in merged_searches:
        _check_empty_matches(search.part)
        _AutomatonBuilder().build(search.part)
    return merged_searches


def full_match_pattern(pattern: str) -> str:
    """Return a pattern that is found where the given one matches the whole text."""
    return "|".join(f"^{_pattern_text(part)}$" for _, part, _ in _PatternParser(pattern).parse_alternatives())


def python_pattern(searches: Sequence[Search]) -> str:
    """Return the searches as one pattern of Python's ``re.search``."""
    starts, ends = {True: r"\A", False: ""}, {True: r"\Z", False: ""}
    return "|".join(f"{starts[search.at_start]}(?:{search.pattern}){ends[search.at_end]}" for search in searches)


def _regex_refusal(rule: str, fix: str) -> Unsupported:
    return Unsupported("regex", rule, fix=fix)


_SYNTAX_FIX = r"use letters, ., [a-z], \d, \w, \s, ( | ), *, +, ?, {2,5}, with ^ at the start and $ at the end"
_DIGITS: Ranges = ((48, 57),)
_WORD: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACES: Ranges = ((9, 10), (12, 13), (32, 32))
_CLASSES = {"d": _DIGITS, "w": _WORD, "s": _SPACES}
_CONTROLS = {"n": 10, "t": 9, "r": 13, "f": 12}


def _complement(ranges: Ranges) -> Ranges:
    ends, outside = 0, []
    for low, high in ranges:
        if low > ends:
            outside.append((ends, low - 1))
        ends = high + 1
    return (*outside, (ends, _LAST_LETTER)) if ends <= _LAST_LETTER else tuple(outside)


def _union(ranges: Sequence[tuple[int, int]]) -> Ranges:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


class _PatternParser:
    """A recursive-descent parser of one pattern."""

    def __init__(self, pattern: str) -> None:
        self._pattern, self._index = pattern, 0
        if "\0" in pattern:
            raise _regex_refusal("a regular expression cannot contain the character U+0000", "leave that character out")

    def parse_alternatives(self) -> Iterator[tuple[bool, Concatenation, bool]]:
        """Parse the alternatives of the whole pattern, each with whether it is anchored at either end."""
        while True:
            at_start = self._accept("^") or self._accept("\\A")
            part = self._parse_concatenation()
            at_end = self._accept("$") or self._accept("\\z")
            yield at_start, part, at_end
            if not self._accept("|"):
                break
        if self._index < len(self._pattern):
            anchor = self._pattern[self._index] in "^$\\"
            where = "^ can only start, and $ can only end, a whole alternative" if anchor else "a ) has no matching ("
            raise _regex_refusal(f"this regular expression is not supported: {where}", _SYNTAX_FIX)

    def _accept(self, text: str) -> bool:
        if not self._pattern.startswith(text, self._index):
            return False
        self._index += len(text)
        return True

    def _next_letter(self) -> str:
        letter = self._pattern[self._index : self._index + 1]
        if not letter:
            raise _regex_refusal("this regular expression ends too early", _SYNTAX_FIX)
        self._index += 1
        return letter

    def _parse_concatenation(self) -> Concatenation:
        parts = []
        while self._index < len(self._pattern) and not self._at_end_of_part():
            parts.append(self._parse_quantified(self._parse_atom()))
        return Concatenation(tuple(parts))

    def _at_end_of_part(self) -> bool:
        rest = self._pattern[self._index :]
        return rest[0] in "|)$^" or rest.startswith(("\\z", "\\A"))

    def _parse_atom(self) -> Part:
        letter = self._next_letter()
        match letter:
            case "(":
                return self._parse_group()
            case "[":
                return Letters(self._parse_bracket())
            case ".":
                return Letters(_complement(((10, 10),)))
            case "\\":
                return Letters(self._parse_escape())
            case "*" | "+" | "?" | "{":
                raise _regex_refusal(f"{letter} has nothing to repeat, or is written twice", _SYNTAX_FIX)
        return Letters(((ord(letter), ord(letter)),))

    def _parse_group(self) -> Part:
        if self._accept("?") and not self._accept(":"):
            rule = "look-arounds, flags and named groups of regular expressions are not supported"
            raise _regex_refusal(
                rule, "write a plain group (a|b); to ignore letter case, match LOWER(text) with a pattern in lower case"
            )
        options = [self._parse_concatenation()]
        while self._accept("|"):
            options.append(self._parse_concatenation())
        if not self._accept(")"):
            is_open = self._index == len(self._pattern)
            raise _regex_refusal(
                "a ( has no matching )" if is_open else "^ and $ cannot stand inside a group", _SYNTAX_FIX
            )
        return options[0] if len(options) == 1 else Alternatives(tuple(options))

    def _parse_escape(self) -> Ranges:
        letter = self._next_letter()
        if letter.lower() in _CLASSES:
            ranges = _CLASSES[letter.lower()]
            return ranges if letter.islower() else _complement(ranges)
        if letter in _CONTROLS:
            return ((_CONTROLS[letter], _CONTROLS[letter]),)
        if letter.isdigit():
            raise _regex_refusal(
                "back-references such as \\1 are not supported: they cannot be matched in bounded time",
                "write the repeated text out",
            )
        if letter.isalnum() or ord(letter) > 126:
            raise _regex_refusal(f"\\{letter} is not supported in a regular expression", _SYNTAX_FIX)
        return ((ord(letter), ord(letter)),)

    def _parse_bracket(self) -> Ranges:
        negated, first = self._accept("^"), True
        ranges: list[tuple[int, int]] = []
        while first or not self._accept("]"):
            low = self._parse_bracket_item(first)
            first = False
            is_range = len(low) == 1 and low[0][0] == low[0][1] and self._pattern[self._index : self._index + 1] == "-"
            if is_range and self._pattern[self._index + 1 : self._index + 2] not in ("]", ""):
                self._index += 1
                high = self._parse_bracket_item(first=False)
                if len(high) != 1 or high[0][0] != high[0][1] or high[0][0] < low[0][0]:
                    raise _regex_refusal("a range in brackets must go from one letter to a later one", "write [a-z]")
                low = ((low[0][0], high[0][0]),)
            ranges.extend(low)
        accepted_ranges = _complement(_union(ranges)) if negated else _union(ranges)
        if not accepted_ranges or not _complement(accepted_ranges):
            raise _regex_refusal(
                "a set in brackets must match some characters, but not all", "write . for any character but a newline"
            )
        return accepted_ranges

    def _parse_bracket_item(self, first: bool) -> Ranges:
        letter = self._next_letter()
        if letter == "[" and self._pattern[self._index : self._index + 1] in (":", ".", "="):
            raise _regex_refusal("[:alpha:] and other named classes are not supported", "write [A-Za-z], [0-9] or \\w")
        if letter == "\\":
            return self._parse_escape()
        if letter == "]" and not first:
            raise _regex_refusal("a range in brackets must go from one letter to a later one", "write [a-z]")
        return ((ord(letter), ord(letter)),)

    def _parse_quantified(self, part: Part) -> Part:
        counts = self._parse_counts()
        if counts is None:
            return part
        self._accept("?")  # how many are tried first decides nothing: a text matches or it does not
        low, high = counts
        if max(low, high or 0) > MAX_REPEATS:
            rule = f"a count in braces of a regular expression can be at most {MAX_REPEATS}"
            raise _regex_refusal(rule, f"write a count of at most {MAX_REPEATS}, such as {{2,5}}")
        if high is not None and high < low:
            rule = f"{{{low},{high}}} in a regular expression needs the smaller count first"
            raise _regex_refusal(rule, f"write {{{high},{low}}}")
        return part if counts == (1, 1) else Repetition(part, low, high)

    def _parse_counts(self) -> tuple[int, int | None] | None:
        for sign, counts in {"*": (0, None), "+": (1, None), "?": (0, 1)}.items():
            if self._accept(sign):
                return counts
        braces = re.compile(r"\{(\d{1,4})(,(\d{0,4}))?\}").match(self._pattern, self._index)
        if braces is None:
            return None
        self._index = braces.end()
        low, comma, high = braces.groups()
        return int(low), (int(low) if comma is None else int(high) if high else None)


def _without_needless_ends(part: Concatenation, *, at_start: bool, at_end: bool) -> Concatenation:
    """Leave out what need not be looked for at an end that is not anchored: x{2,5} is found there where x{2} is."""
    parts = list(part.parts)
    for index, is_anchored in ((0, at_start), (-1, at_end)):
        while not is_anchored and parts and isinstance(repeated := parts[index], Repetition):
            if repeated.low:
                parts[index] = Repetition(repeated.part, repeated.low, repeated.low)
                break
            del parts[index]
    return Concatenation(tuple(parts))


def _pattern_text(part: Part) -> str:
    match part:
        case Letters(ranges):
            return _write_letters(ranges)
        case Concatenation(parts):
            return "".join(
                f"(?:{_pattern_text(piece)})" if isinstance(piece, Alternatives) else _pattern_text(piece)
                for piece in parts
            )
        case Alternatives(options):
            return "|".join(map(_pattern_text, options))
        case Repetition(repeated, low, high):
            text = _pattern_text(repeated) if isinstance(repeated, Letters) else f"(?:{_pattern_text(repeated)})"
            return text + _write_counts(low, high)


def _write_counts(low: int, high: int | None) -> str:
    if high is None and low <= 1:
        return "+" if low else "*"
    if (low, high) == (0, 1):
        return "?"
    return f"{{{low}}}" if low == high else f"{{{low},{'' if high is None else high}}}"


def _write_letters(ranges: Ranges) -> str:
    """Write a set of letters: one by itself, many in brackets, and nearly all by those that are not among them."""
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return _write_letter(ranges[0][0])
    if ranges[-1][1] == _LAST_LETTER:
        return f"[^{_write_ranges(_complement(ranges))}]"
    return f"[{_write_ranges(ranges)}]"


def _write_ranges(ranges: Ranges) -> str:
    return "".join(
        _write_letter(low) if low == high else f"{_write_letter(low)}-{_write_letter(high)}" for low, high in ranges
    )


def _write_letter(code: int) -> str:
    letter = chr(code)
    return letter if code > 126 or code < 33 or letter.isalnum() else f"\\{letter}"


def _matches_empty(part: Part) -> bool:
    match part:
        case Letters():
            return False
        case Concatenation(parts):
            return all(map(_matches_empty, parts))
        case Alternatives(options):
            return any(map(_matches_empty, options))
        case Repetition(repeated, low, _):
            return low == 0 or _matches_empty(repeated)


def _check_empty_matches(part: Part) -> None:
    """Refuse parts that match the empty text in several ways."""
    match part:
        case Concatenation(parts):
            for piece in parts:
                _check_empty_matches(piece)
        case Alternatives(options):
            if sum(map(_matches_empty, options)) > 1:
                raise _regex_refusal("two alternatives both match the empty text", "write (a|b)? instead of (a?|b?)")
            for option in options:
                _check_empty_matches(option)
        case Repetition(repeated):
            if _matches_empty(repeated):
                raise _regex_refusal(
                    "a repeated group must not match the empty text", "write (a|b)* instead of (a*b*)*"
                )
            _check_empty_matches(repeated)


@dataclass(frozen=True)
class _Automaton:
    """The position automaton of a part: each letter of the pattern is a state."""

    empty: bool
    first: frozenset[int]
    last: frozenset[int]


class _AutomatonBuilder:
    """Builds a position automaton; repeated parts are written out."""

    def __init__(self) -> None:
        self.letters: list[Ranges] = []
        self.follow: list[Counter[int]] = []
        """For each position, the edges to those that may follow it."""

    def build(self, part: Part) -> _Automaton:
        match part:
            case Letters(ranges):
                return self._add_position(ranges)
            case Concatenation(parts):
                return self._join(map(self.build, parts))
            case Alternatives(options):
                built = [self.build(option) for option in options]
                return _Automaton(
                    any(automaton.empty for automaton in built),
                    frozenset().union(*(automaton.first for automaton in built)),
                    frozenset().union(*(automaton.last for automaton in built)),
                )
            case Repetition(repeated, low, high):
                return self._repeat_automaton(repeated, low, high)

    def _add_position(self, ranges: Ranges) -> _Automaton:
        if len(self.letters) >= MAX_POSITIONS:
            rule = f"a regular expression can have at most {MAX_POSITIONS} letters once its counts are written out"
            raise _regex_refusal(rule, "use smaller counts, or + and *")
        self.letters.append(ranges)
        self.follow.append(Counter())
        only = frozenset((len(self.letters) - 1,))
        return _Automaton(False, only, only)

    def _repeat_automaton(self, repeated: Part, low: int, high: int | None) -> _Automaton:
        """Write the copies out in a row, the last of which may follow itself; no copy matches the empty text."""
        copies = [self.build(repeated) for _ in range(max(low, 1) if high is None else high)]
        for copy, next_copy in itertools.pairwise(copies):
            self._add_transitions(copy.last, next_copy.first)
        if high is None:
            self._add_transitions(copies[-1].last, copies[-1].first)
        ends = (copy.last for copy in copies[max(low, 1) - 1 :])
        return _Automaton(low == 0, copies[0].first if copies else frozenset(), frozenset().union(*ends))

    def _join(self, built: Iterator[_Automaton]) -> _Automaton:
        whole = _Automaton(True, frozenset(), frozenset())
        for automaton in built:
            self._add_transitions(whole.last, automaton.first)
            whole = _Automaton(
                whole.empty and automaton.empty,
                whole.first | automaton.first if whole.empty else whole.first,
                whole.last | automaton.last if automaton.empty else automaton.last,
            )
        return whole

    def _add_transitions(self, last: frozenset[int], first: frozenset[int]) -> None:
        for position in last:
            self.follow[position].update(first)


Runs = tuple[tuple[int, int], ...]
"""The number of runs that are in each position."""


@cache
def _steps_from_one_start(part: Part, text_length: int, max_steps: int) -> int | None:
    """Return the most steps from one start of a text of this length; None where there are more than ``max_steps``."""
    builder = _AutomatonBuilder()
    automaton = builder.build(part)
    alphabet = sorted({end for ranges in builder.letters for low, high in ranges for end in (low, high + 1)})
    allowed = [
        frozenset(index for index, ranges in enumerate(builder.letters) if any(a <= code <= b for a, b in ranges))
        for code in alphabet
    ]
    frontier = frozenset(
        tuple((position, 1) for position in sorted(automaton.first & possible)) for possible in allowed
    )
    costs, explored, earlier = [len(automaton.first)], 0, set[frozenset[Runs]]()
    while frontier - {()} and len(costs) <= text_length:
        if frontier in earlier:  # from here on, everything comes again
            return _none_if_above(sum(costs) + max(costs) * (text_length + 1 - len(costs)), max_steps)
        earlier.add(frontier)
        costs.append(max(_letter_cost(runs, builder) for runs in frontier))
        explored += len(frontier)
        if explored > _MAX_EXPLORED or sum(costs) > max_steps:
            return None
        frontier = frozenset(_advance_runs(runs, possible, builder) for runs in frontier for possible in allowed)
    return _none_if_above(sum(costs), max_steps)


def _none_if_above(steps: int, max_steps: int) -> int | None:
    return steps if steps <= max_steps else None


def _advance_runs(runs: Runs, letters: frozenset[int], builder: _AutomatonBuilder) -> Runs:
    reached: Counter[int] = Counter()
    for position, count in runs:
        for next_position, edges in builder.follow[position].items():
            if next_position in letters:
                reached[next_position] += count * edges
    return tuple(sorted(reached.items()))


def _letter_cost(runs: Runs, builder: _AutomatonBuilder) -> int:
    """Return the steps of the runs at one letter: each tries all edges, and the end."""
    return sum(count * (1 + builder.follow[position].total()) for position, count in runs)
