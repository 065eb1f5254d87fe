"""Some rows never count: those that the policy calls impossible, and those that the condition of a question leaves out.

Both are public before a row is read. So the model leaves such cells empty, and no such row is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sfumato.errors import InvalidParameter, Unsupported
from sfumato.policy import Domain
from sfumato.publish.cells import answering
from sfumato.publish.marginals.attributes import Attributes
from sfumato.publish.marginals.faces import BARE, TableFace
from sfumato.publish.synthesis.implications import Zeros
from sfumato.publish.synthesis.released import Implied
from sfumato.publish.synthesis.zeros import check_zeros, zeros_of

_OF_OTHER_COLUMNS = "unknown-column"


def check_conditions(table: str, attributes: Attributes, implied: Sequence[Implied], face: TableFace) -> None:
    """Refuse a condition that cannot be told of drawn rows, but for one on columns that they do not have."""
    added = tuple(each.attribute for each in implied)
    domains = (*face.known(attributes), *BARE.known(added))
    for each in face.impossible:
        try:
            _evaluate(table, (*attributes, *added), domains, each)
        except Unsupported as refusal:
            if refusal.code != _OF_OTHER_COLUMNS:
                rule = (
                    f"drawn rows never meet what the policy calls impossible, and {each[:200]} cannot be told of them"
                )
                fix = "write it with fewer columns or coarser bins, or remove it from the policy"
                why = refusal.rule.removesuffix(f" [{refusal.code}]")
                raise Unsupported(refusal.code, f"{rule}: {why}", fix=fix) from None


def kept_face(table: str, attributes: Attributes, face: TableFace, where: str) -> TableFace:
    """Add that no row fails the condition by which rows are kept, where that can be told of the columns."""
    failing = f"({where}\n) IS NOT TRUE"
    try:
        _evaluate(table, attributes, face.known(attributes), failing)
    except Unsupported:
        return face
    return replace(face, impossible=(*face.impossible, failing))


def kept_zeros(table: str, attributes: Attributes, face: TableFace, zeros: Zeros, where: str, most_cells: int) -> Zeros:
    """Find the cells that are empty, those that the condition leaves out too where the model can hold them; where it
    cannot, rows are mended after they are drawn.
    """
    found = zeros_of(table, attributes, face)
    try:
        check_zeros(found, [each.size for each in attributes], most_cells)
    except Unsupported as refusal:
        if refusal.code == "contradictory-zeros":
            raise InvalidParameter("where", where, "a condition that some row can meet") from None
        return zeros
    return found


def _evaluate(table: str, attributes: Attributes, domains: tuple[Domain, ...], text: str) -> None:
    answering.condition(answering.Face(table, attributes, domains, None, None), text)  # type: ignore[arg-type]
