"""A published file is read as what it is, which its manifest says: a synopsis, or a model.

A fitted model answers for ever from what the rounds of MWEM released, as a synopsis does; nothing is charged.

A number is *measured* where rounds measured its columns together, with a range that holds however these were chosen
(``fits``). Everything else is *bounded* by these marginals, and the number inside is the model's. That theorem is for
Gaussian noise: with a pure price there are no ranges, and questions in SQL are refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, SynopsisDamaged, Unsupported
from sfumato.mechanisms import Laplace
from sfumato.plan.sql.parameters import Parameters
from sfumato.policy import Type
from sfumato.privacy import codec
from sfumato.privacy.numbers import Number
from sfumato.publish.cells import answering
from sfumato.publish.files import fitted_files, model_files, sealed_files, synopsis_files
from sfumato.publish.fits import Fit
from sfumato.publish.marginals.attributes import Attributes
from sfumato.publish.marginals.blocks import Set
from sfumato.publish.marginals.chains import Floats
from sfumato.publish.mwem import Model
from sfumato.publish.synopsis import Synopsis, cell_keys, key_type
from sfumato.publish.synthetic import Synthetic
from sfumato.release.answers.answer import Answer
from sfumato.release.answers.receipts import INVENTED, Receipt
from sfumato.release.prices import Price
from sfumato.untrusted import UNFORESEEN, refusing

_LONGEST = 1 << 30
"""Letters of a model's JSON text."""
_MODELLED = "the counts are a model's: it was fitted to the noisy counts of its rounds, and no range is known for them"


@dataclass(frozen=True)
class FittedRound:
    """This is one round: which columns were chosen, and of which cells; all of them where none is named."""

    columns: tuple[str, ...]
    cells: tuple[int, ...] | None
    counts: tuple[float, ...]
    """The noisy counts of these cells, in rows."""
    price: str
    """What its choice and its measurement cost, each a step of its own."""


@codec.value("fitted-model")
@dataclass(frozen=True)
class _FittedModelFile:
    """A model is written as what was released for it, with the receipt: it is fitted again where it is read."""

    fit: Fit
    receipt: Receipt

    def __post_init__(self) -> None:
        if not isinstance(self.fit, Fit) or not isinstance(self.receipt, Receipt):
            raise InvalidParameter("fit", type(self.fit).__name__, "what a model was fitted from, and its receipt")


@codec.written_as("fitted-model")
@dataclass(frozen=True, eq=False)
class FittedModel:
    """This is a model of a table: it gives every marginal of its columns, without a further charge."""

    fit: Fit = field(repr=False)
    receipt: Receipt = field(repr=False)
    model: Model = field(repr=False)

    @property
    def attributes(self) -> Attributes:
        return self.fit.attributes

    @property
    def table(self) -> str:
        return self.fit.table

    @property
    def columns(self) -> tuple[str, ...]:
        """List the columns, in their order."""
        return tuple(each.name for each in self.attributes)

    @property
    def rehearsed(self) -> bool:
        """Tell whether it was invented from the policy alone: nothing was read, charged or written down."""
        return self.receipt.rehearsed

    @property
    def guarantee(self) -> Price:
        """Say what was promised: ε, (ε, δ) or ρ."""
        return self.fit.price

    @property
    def total(self) -> float:
        """Give the noisy number of rows, which was paid for first."""
        return self.model.total * float(self.fit.unit_value)

    @property
    def planned(self) -> int:
        """Say how many rounds were paid for; fewer were run where it was interrupted."""
        return self.fit.planned

    @cached_property
    def rounds(self) -> tuple[FittedRound, ...]:
        """List what every round released."""
        step = self.fit.unit_value
        paid = f"{self.fit.choice.words()}; {self.fit.noise.words(step)}"
        return tuple(
            FittedRound(
                tuple(self.columns[place] for place in each.places),
                each.cells,
                tuple(float(value * step) for value in each.values),
                paid,
            )
            for each in self.fit.rounds
        )

    def sql(
        self,
        question: str,
        parameters: Parameters | None = None,
        *,
        confidence: Number = "0.95",
        together: bool = False,
    ) -> Answer:
        """Answer a question in SQL: free, and as often as you like.

        Numbers are *measured* where rounds measured all their columns together, and else *bounded* by what was, with
        the model's number inside.
        """
        if isinstance(self.fit.noise, Laplace):
            rule = "ranges of a model are known for Gaussian noise, and a pure price has Laplace noise"
            raise Unsupported("pure-price", rule, fix="ask for marginal([…]), or fit a model with a delta or rho")
        return answering.ask(self.face, question, parameters, confidence=confidence, together=together)

    @cached_property
    def face(self) -> answering.Face:
        """Give what questions in SQL see of it."""
        known = replace(self.fit.known, modelled=self._over)
        domains = self.fit.face.known(self.attributes)
        return answering.Face(self.table, self.attributes, domains, known, self.receipt, self.fit.where)

    def _over(self, places: Set) -> Floats:
        """Give the counts that the model has in all cells of some columns, in rows."""
        gone = tuple(place for place in range(len(self.attributes)) if place not in places)
        return np.asarray(self.model.fitted.sum(axis=gone)) * float(self.fit.unit_value)

    def marginal(self, columns: Sequence[str]) -> Answer:
        """Give the counts that the model has in all cells of some columns, in the order in which these are named."""
        asked = self._named(columns)
        places, own = sorted(asked), [self.attributes[place] for place in asked]
        flat = self._over(tuple(places)).transpose([places.index(place) for place in asked]).ravel().tolist()
        names = [each.name for each in own]
        called = "count" if "count" not in names else "count_"
        rows = tuple((*key, count) for key, count in zip(cell_keys(own), flat, strict=True))
        told = replace(self.receipt, question=f"the modelled marginal of {' and '.join(names)}", free=True)
        kinds = (*(key_type(each) for each in own), Type.REAL)
        return Answer((*names, called), kinds, rows, {}, tuple(names), told, (_MODELLED,))

    def _named(self, columns: Sequence[str]) -> list[int]:
        known = {name.lower(): place for place, name in enumerate(self.columns)}
        listed = not isinstance(columns, (str, bytes)) and isinstance(columns, Sequence) and bool(columns)
        found = [known.get(str(each).lower(), -1) for each in columns] if listed else [-1]
        if -1 in found or len(set(found)) != len(found):
            rule = f"a list of different names among {', '.join(self.columns)}"
            raise InvalidParameter("columns", columns, rule)
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file, from which ``sf.synopsis(path)`` reads it without data, curator or ledger."""
        fitted_files.save(self.fit, self.receipt, path)

    def to_json(self) -> str:
        """Write all that was released, and the receipt, as JSON text."""
        return codec.dumps(_FittedModelFile(self.fit, self.receipt))

    @classmethod
    def from_json(cls, source: str) -> FittedModel:
        """Read back what ``to_json`` wrote, and fit the model again to the bit. Any other text is refused."""
        found = codec.loads_as(_FittedModelFile, source, longest=_LONGEST)
        with refusing(lambda: InvalidParameter("source", source, "the JSON text of a fitted model")):
            return cls(found.fit, found.receipt, found.fit.model)

    @classmethod
    def read(cls, content: bytes, place: str) -> FittedModel:
        """Read a model from the bytes of its file, and fit it again to the bit."""
        fit, receipt = fitted_files.read(content, place)
        return cls(fit, receipt, fit.model)

    def __repr__(self) -> str:
        lines = [
            f"model      {self.table}, fitted in {len(self.rounds)} of {self.planned} rounds",
            f"columns    {', '.join(f'{each.name} ({each.size - 1} + missing)' for each in self.attributes)}",
            f"promise    {self.guarantee}{INVENTED if self.rehearsed else ''}",
        ]
        return "\n".join(lines)


Published = Synopsis | FittedModel | Synthetic

_FORM = "survey-file/1"
_READERS: dict[str, Callable[[bytes, str], Published]] = {
    fitted_files.KIND: FittedModel.read,
    model_files.KIND: Synthetic.read,
}
"""By the kind of the manifest; anything else is read as a synopsis, which says what is wrong with it."""


def synopsis(path: str | os.PathLike[str]) -> Published:
    """Read what was published from its file: no data, curator or ledger is needed, and whatever was edited is refused.

    A file of marginals gives a ``Synopsis``, one of a synthetic table a ``Synthetic``, and one of a model that MWEM
    fitted a ``FittedModel``.
    """
    content = sealed_files.content_of(path)
    with refusing(lambda: sealed_files.damaged(str(path), "what it holds does not fit together")):
        return _read(content, path)


def _read(content: bytes, path: str | os.PathLike[str]) -> Published:
    kind = _kind(content, str(path))
    if kind == _FORM:
        fix = "read it with sf.form; what was answered is in the reports"
        raise SynopsisDamaged("this file is a survey form, which holds no answers", place=str(path), fix=fix)
    reader = _READERS.get(kind)
    return Synopsis(*synopsis_files.read(content, str(path))) if reader is None else reader(content, str(path))


def _kind(content: bytes, place: str) -> str:
    """Find what kind of thing a file says it is; the readers check all of it."""
    for name, member in sealed_files.members_of(content, place):
        if name == sealed_files.MANIFEST:
            try:
                return str(json.loads(member, parse_float=str, parse_constant=str)["kind"])
            except UNFORESEEN:
                return ""
    return ""
