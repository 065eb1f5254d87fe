"""Rows that a random population lacks, for comparisons of engines, and random questions whose keys nobody declared."""

from __future__ import annotations

from random import Random

import pyarrow as pa

from safety.worlds import FIRST, Row, World

LETTERS = ("İ", "ß", "Σ", "😀", "ΑΣ ας İıßẞ 😀", "SS", "i", "σ")
"""Letters whose small and capital forms, widths and orders engines see differently, and what some take them for."""
_KEYS = ("note", "UPPER(note)", "LOWER(note)", "LEFT(note, 1)")
_VALUES = ("COUNT(*)", "SUM(code)", "COUNT(note)", "SUM(LENGTH(note))")


def strange_rows(made: World) -> tuple[Row, ...]:
    """Rows without an id, rows with strange letters, and units whose ids are such letters where ids are texts."""
    named = pa.types.is_string(made.stored["who"])
    low = made.columns["age"]["bounds"][0]
    plain = {"age": low, "cost": float(made.columns["cost"]["bounds"][1]), "flag": True, "code": 2, "day": FIRST}
    lettered = [
        {"who": letter if named else 2000 + place % 3, **plain, "region": letter, "note": letter}
        for place, letter in enumerate(LETTERS)
    ]
    unowned = [{"who": None, **plain, "region": "north", "note": note} for note in ("7", "ß", None)]
    return (*lettered, *unowned)


def found_question(random: Random, made: World) -> str:
    """A question whose keys are found in the data, alone or beside keys that are declared."""
    people = random.choice((("COUNT(DISTINCT who)",), ())) if made.units else ()
    measures = (*people, *random.sample(_VALUES, random.randint(1, 2)))
    keys = (random.choice(_KEYS), *random.choice(((), ("flag",), ("code",))))
    selected = [f"{each} AS g{place}" for place, each in enumerate(keys)]
    selected += [f"{each} AS x{place}" for place, each in enumerate(measures)]
    return (
        f"SELECT {', '.join(selected)} FROM people GROUP BY {', '.join(str(place + 1) for place in range(len(keys)))}"
    )
