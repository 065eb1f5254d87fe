"""Accounts that have been asked things which nobody outside may learn."""

from __future__ import annotations

from pathlib import Path

import sfumato as sf

PERSON = "Zdenka Quxová"
"""Named in a question, as a constant and as a group."""
ALIAS = "secretaliasname"
SECRETS = (
    PERSON,
    "Zdenka",
    "Quxov",
    ALIAS,
    "anaphora",
    "request-77",
    "flights.parquet",
    "quietfolder",
    "amendreason",
)
"""Texts of questions, names of columns, the analyst, a request, places of files, an owner's own words."""
QUESTION = (
    f"SELECT CASE WHEN delay > 60 THEN '{PERSON}' ELSE 'other' END AS who, COUNT(*) AS {ALIAS} FROM flights "
    f"WHERE carrier <> '{PERSON}' GROUP BY 1"
)
PLAIN = "SELECT origin, COUNT(*) AS flights FROM flights GROUP BY origin"


def asked(folder: Path) -> Path:
    """The bundled example with one question that names a person and an analyst, and one that names nobody; the same
    question twice."""
    policy = sf.example(folder)
    policy.write_text(policy.read_text().replace("[analysts.ana]", "[analysts.anaphora]"))
    with sf.open(policy) as flights:
        flights.as_analyst("anaphora").sql(QUESTION).release(epsilon=0.25, request_id="request-77")
        flights.sql(PLAIN).release(epsilon=0.5)
        flights.sql(PLAIN).release(epsilon=0.125, fresh=True)
        policy.write_text(policy.read_text().replace("epsilon = 3", "epsilon = 4"))
        flights.amend(reason="amendreason")
    return policy
