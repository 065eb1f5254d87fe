"""Name the cell rules that would read the cells a column loses, from the texts of those cells. PRIVATE.

They are proposed as those of a new policy are (``cell_proposals``), for the type that the column declares. The owner,
who sees the texts anyway, decides.
"""

from __future__ import annotations

from collections.abc import Mapping

from sfumato.curator.cell_proposals import (
    SEEN,
    USUAL_NULLS,
    CellProposal,
    propose_readings_for_texts,
    propose_trim_and_case_for_texts,
)
from sfumato.policy import Domain, Type
from sfumato.policy.cell_rules import CellRules
from sfumato.policy.toml_files import toml_value
from sfumato.quick_dataclass import dataclass


@dataclass(frozen=True)
class SuggestedCellRules:
    """The keys to add to a column, as a policy writes them. PRIVATE."""

    nulls_toml: str = ""
    """The key that counts cells as missing."""
    readings_toml: tuple[str, ...] = ()
    """The keys that read most lost cells; if several, the owner has to know which are right."""

    def __bool__(self) -> bool:
        return bool(self.nulls_toml or self.readings_toml)

    def __str__(self) -> str:
        return ", ".join(filter(None, [self.nulls_toml, " or ".join(self.readings_toml)]))


def suggest_cell_rules(domain: Domain, lost_texts: Mapping[str, int], declared: CellRules) -> SuggestedCellRules:
    """Return the keys to add to a column so that most of its lost cells are read.

    ``lost_texts`` counts the texts of the cells that the column reads as NULL, and those of ``USUAL_NULLS``.
    """
    listed = {*map(str, domain.values or ()), *(declared.nulls or ())}
    nulls = [word for word in USUAL_NULLS if word not in listed and any(text.strip(" ") == word for text in lost_texts)]
    others = {text: count for text, count in lost_texts.items() if text.strip(" ") not in USUAL_NULLS}
    proposal = _propose_reading_or_folding(domain, others) if others and not _has_reading_rules(declared) else None
    readings = [] if proposal is None else [_keys_toml(each.rules) for each in (proposal.reading, *proposal.rivals)]
    return SuggestedCellRules(
        f"nulls = {toml_value((*(declared.nulls or ()), *nulls))}" if nulls else "",
        tuple(dict.fromkeys(filter(None, readings))),
    )


def _propose_reading_or_folding(domain: Domain, texts: Mapping[str, int]) -> CellProposal | None:
    if domain.type is not Type.TEXT:
        return propose_readings_for_texts({"": texts}, required_type=domain.type, thresholds=SEEN).get("")
    return propose_trim_and_case_for_texts(texts, [str(value) for value in domain.values or ()])


def _has_reading_rules(rules: CellRules) -> bool:
    """Return whether rules on how cells are written are declared: the owner chose their form."""
    return bool(rules.keys.keys() - {"nulls", "possible"})


def _keys_toml(rules: CellRules) -> str:
    return ", ".join(f"{key} = {toml_value(value)}" for key, value in rules.keys.items())
