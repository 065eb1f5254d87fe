"""A secret Poisson sample of the units: which units a release reads.

A unit with the text x is read where the first 64 bits of SHA-256(k ‖ "|" ‖ x) are below ⌊q·2⁶⁴⌋; k is a fresh key of
128 bits, as 32 hexadecimal digits. As far as SHA-256 with a secret prefix of fixed length is a pseudorandom function,
each unit is there with probability ⌊q·2⁶⁴⌋/2⁶⁴ ≤ q, independently of all others. The filter stands where a table is
scanned, beside the unit that the scan gives each row: all rows of a unit, in every table, are read or none is. A unit
has one text in one policy: ids are read in one type, and equal ids of that type have equal texts.

The bits of a reading's key above the lowest 62 are k: all readings of a release share it, and no two releases do. It is
in no reading, no ledger line and no answer.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

from sfumato.privacy.numbers import Number, Range, exact

ROW_KEY_BITS, UNIT_KEY_BITS = 62, 128
_RATES = Range(
    "a share of the units from 0.000001 to below 1, such as 0.1 or '10 %'",
    Fraction(1, 10**6),
    Fraction(1),
    high_open=True,
)
_PERCENTAGE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?) ?%")


def parse_rate(sample: Number) -> Fraction:
    """Parse the share of the units in a sample: a number below 1, or a percentage as text.

    >>> parse_rate("2.5 %")
    Fraction(1, 40)
    """
    percentage = _PERCENTAGE.fullmatch(sample.strip()) if isinstance(sample, str) else None
    return exact(sample if percentage is None else Fraction(percentage[1]) / 100, "sample", _RATES)


def combined_key(unit_key: int, row_key: int) -> int:
    """Return the key of one reading of a release over a sample of units."""
    return unit_key << ROW_KEY_BITS | row_key


def hash_prefix(key: int) -> str:
    """Return what precedes a unit's text in the hash, from the key of a reading."""
    return f"{key >> ROW_KEY_BITS:032x}|"


def hash_threshold(rate: Fraction) -> str:
    """Return ⌊rate·2⁶⁴⌋ as 16 hexadecimal digits."""
    return f"{math.floor(rate * 2**64):016x}"
