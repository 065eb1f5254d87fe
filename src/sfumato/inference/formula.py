"""Model formulas: ``hours ~ age + C(education, "HS-grad") + age:sex``, parsed into terms.

The grammar is a part of that of R and patsy. A term is a column, ``C(column)`` for a category, ``center(column)`` or
``center(column, 40)``, a square ``age^2``, or a product ``age:sex`` of two of these; ``age*sex`` adds both columns and
their product. ``0`` or ``-1`` leaves out the intercept.

Numbers as indicators of ranges: what a prediction from many columns is fitted to.

The declared bounds of a number are cut into ranges of equal width, each from its lower edge up to below its upper one.
The first has no lower end and the last no upper one, so every number, clamped or not, is in exactly one of them: a row
has at most one of their indicators, and what it adds to a squared norm is at most 1, as for a category or for a scaled
column. The edges follow from the policy alone.

A curve that a straight line misses is worth more than the noise on its ranges: of 4, 8, 16 and 32 ranges on four
targets of NIST's and PUMS's tables, 16 lost least to noise at ε = 0.1 and were better than straight lines on all at
ε = 1 (``bench/inference.py``); 32 are better still at ε = 1, and take twice as many sums.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from math import ceil
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter
from sfumato.policy import Domain, Type
from sfumato.privacy.numbers import exact
from sfumato.quick_dataclass import dataclass

_TOKEN = re.compile(
    r"""\s*(?:(?P<name>[^\W\d]\w*)|(?P<quoted>`[^`]+`|"[^"]+")|(?P<text>'(?:[^']|'')*')"""
    r"""|(?P<number>\d+(?:\.\d+)?)|(?P<symbol>\*\*|[-~+*:^(),]))"""
)
_EXAMPLE = 'write, for example, "hours ~ age + sex + education"'
MAX_LENGTH = 10_000


@dataclass(frozen=True)
class Factor:
    """A column as a term uses it."""

    column: str
    is_category: bool = False
    """Whether it was written C(column); text columns are categories in any case."""
    reference: str | None = None
    """The named reference value of a category, as text."""
    is_centred: bool = False
    centre: Fraction | None = None
    """The value that ``center`` subtracts; None for the middle of the declared bounds."""

    @property
    def label(self) -> str:
        if not self.is_centred:
            return self.column
        return f"center({self.column})" if self.centre is None else f"center({self.column}, {float(self.centre):g})"


Term = tuple[Factor, ...]
"""One factor, or two for a product or a square."""


def term_label(term: Term) -> str:
    """Return the name of a term in tables."""
    if len(term) == 2 and term[0] == term[1]:
        return f"{term[0].label}^2"
    return ":".join(factor.label for factor in term)


@dataclass(frozen=True)
class Formula:
    """A target and the terms that it is regressed on."""

    target: str
    terms: tuple[Term, ...]
    has_intercept: bool = True

    @property
    def text(self) -> str:
        terms = [term_label(term) for term in self.terms]
        return f"{self.target} ~ {' + '.join([*([] if self.has_intercept else ['0']), *terms])}"


def formula_of_columns(target: str, on: Sequence[str]) -> Formula:
    """Return the formula of a target and plain columns."""
    if not all(isinstance(column, str) for column in (target, *on)):
        raise InvalidParameter("on", on, 'a list of names of columns, such as ["age", "sex"]')
    return Formula(
        target, _drop_repeated_terms(tuple((Factor(column),) for column in on), f"{target} ~ {' + '.join(on)}")
    )


def parse_formula(text: str) -> Formula:
    """Parse a formula; what the grammar does not have is refused with its position."""
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_LENGTH:
        raise InvalidParameter("formula", text, "a string with a target and terms", fix=_EXAMPLE)
    return _Parser(text).parse()


class _Parser:
    """A recursive-descent parser of formulas."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str, int]] = []
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                raise self._syntax_refusal(position)
            kind = match.lastgroup or ""
            self.tokens.append((kind, match[kind], match.start(kind)))
            position = match.end()
        self.index = 0

    def parse(self) -> Formula:
        target = self._take_column()
        self._take_required_symbol("~")
        terms: list[Term] = []
        has_intercept = True
        sign = "-" if self._take_symbol("-") else "+"
        while True:
            kind, token, position = self._peek()
            if kind == "number" and token in ("0", "1"):
                self.index += 1
                has_intercept = (token == "1") == (sign == "+")
            elif sign == "-":
                raise self._syntax_refusal(position)
            else:
                terms += self._parse_product()
            if self.index == len(self.tokens):
                break
            sign = "-" if self._take_symbol("-") else self._take_required_symbol("+")
        if not terms and not has_intercept:
            raise InvalidParameter("formula", self.text, "a target and at least one term", fix=_EXAMPLE)
        return Formula(target, _drop_repeated_terms(tuple(terms), self.text), has_intercept)

    def _parse_product(self) -> list[Term]:
        first = self._parse_factor_or_square()
        for symbol in (":", "*"):
            if self._take_symbol(symbol):
                second = self._parse_factor_or_square()
                if len(first) + len(second) > 2 or self._peek()[1] in (":", "*"):
                    fix = "write products of two columns, such as age * sex"
                    raise InvalidParameter("formula", self.text, "made of products of at most two columns", fix=fix)
                product = (*first, *second)
                return [product] if symbol == ":" else [first, second, product]
        return [first]

    def _parse_factor_or_square(self) -> Term:
        factor = self._parse_factor()
        if self._take_symbol("^") or self._take_symbol("**"):
            kind, token, position = self._peek()
            if kind != "number" or token != "2":
                raise self._syntax_refusal(position)
            self.index += 1
            return factor, factor
        return (factor,)

    def _parse_factor(self) -> Factor:
        column = self._take_column()
        if column not in ("C", "center") or self._peek()[1] != "(":
            return Factor(column)
        self._take_required_symbol("(")
        inner, argument = self._take_column(), None
        if self._take_symbol(","):
            argument = self._take_literal(is_number=column == "center")
        self._take_required_symbol(")")
        if column == "C":
            return Factor(inner, is_category=True, reference=argument)
        return Factor(inner, is_centred=True, centre=None if argument is None else exact(argument, "center"))

    def _take_literal(self, *, is_number: bool) -> str:
        sign = "-" if self._take_symbol("-") else ""
        kind, token, position = self._peek()
        if kind not in (("number",) if is_number else ("number", "text", "quoted", "name")):
            raise self._syntax_refusal(position)
        self.index += 1
        return sign + (token[1:-1].replace("''", "'") if kind in ("text", "quoted") else token)

    def _take_column(self) -> str:
        kind, token, position = self._peek()
        if kind not in ("name", "quoted"):
            raise self._syntax_refusal(position)
        self.index += 1
        return token[1:-1] if kind == "quoted" else token

    def _peek(self) -> tuple[str, str, int]:
        return self.tokens[self.index] if self.index < len(self.tokens) else ("end", "", len(self.text))

    def _take_symbol(self, symbol: str) -> bool:
        kind, token, _ = self._peek()
        is_taken = kind == "symbol" and token == symbol
        self.index += is_taken
        return is_taken

    def _take_required_symbol(self, symbol: str) -> str:
        if not self._take_symbol(symbol):
            raise self._syntax_refusal(self._peek()[2])
        return symbol

    def _syntax_refusal(self, position: int) -> InvalidParameter:
        rest = self.text[position : position + 30]
        fault = f"cannot be read from {rest!r} on" if rest else "ends too early"
        rule = (
            "target ~ terms joined by +, where a term is a column, C(column), center(column), a square or a "
            f"product; this formula {fault}"
        )
        return InvalidParameter("formula", self.text, rule, fix=_EXAMPLE)


def _drop_repeated_terms(terms: tuple[Term, ...], text: str) -> tuple[Term, ...]:
    """Drop the columns that a product with * repeats; any other repeated term is redundant, and refused."""
    distinct: dict[tuple[str, ...], Term] = {}
    for term in terms:
        key = tuple(sorted(map(repr, term)))
        label = term_label(term)
        if key in distinct and "*" not in text:
            raise InvalidParameter(
                "formula", text, f"a sum of different terms, but {label} appears twice", fix=f"name {label} once"
            )
        distinct.setdefault(key, term)
    return tuple(distinct.values())


RANGE_COUNTS = 16, 8, 4
"""The number of ranges of a number: the first with which a formula has few enough coordinates."""
_RANGE = re.compile(r"<(?P<first>\S+)|(?P<low>\S+) to <(?P<high>\S+)|≥(?P<last>\S+)")


def range_edges(domain: Domain, count: int) -> tuple[Fraction, ...]:
    """Return where the ranges of a bounded number meet; a range of whole numbers has at least one."""
    assert domain.range is not None
    low, high = (exact(end, "bounds") for end in domain.range)  # type: ignore[arg-type]
    if domain.type is Type.INTEGER:
        size = int(high - low) + 1
        count = min(count, size)
        return tuple(low + ceil(Fraction(index * size, count)) for index in range(1, count))
    inner = (low + index * (high - low) / count for index in range(1, count))
    return tuple(dict.fromkeys(Fraction(float(edge)) for edge in inner))  # as SQL and a label write them


def range_labels(edges: tuple[Fraction, ...]) -> tuple[str, ...]:
    """Return what stands for the ranges in the name of a coefficient: ``<20``, ``20 to <40`` and ``≥40``."""
    texts = [str(edge.numerator) if edge.denominator == 1 else repr(float(edge)) for edge in edges]
    between = (f"{low} to <{high}" for low, high in pairwise(texts))
    return (f"<{texts[0]}", *between, f"≥{texts[-1]}")


def in_labelled_range(label: str, cells: list[Any]) -> NDArray[np.bool_]:
    """Return which cells are numbers in the range of a label; none if it is the label of no range."""
    match = _RANGE.fullmatch(label)
    try:
        ends = {} if match is None else {name: float(text) for name, text in match.groupdict().items() if text}
    except ValueError:
        ends = {}
    if not ends:
        return np.zeros(len(cells), bool)
    low, high = ends.get("low", ends.get("last", -np.inf)), ends.get("high", ends.get("first", np.inf))
    is_number = [isinstance(cell, (Real, Decimal)) and not isinstance(cell, bool) for cell in cells]
    numbers = np.array([float(cell) if real else np.nan for cell, real in zip(cells, is_number, strict=True)])
    return (numbers >= low) & (numbers < high)
