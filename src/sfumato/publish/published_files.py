"""Read published files, a synopsis or a model as the manifest states, and answer from fitted models.

A fitted model answers from what the rounds of MWEM released, as a synopsis does; nothing is charged.

A number is *measured* if rounds measured its columns together, with a range that holds however these were chosen
(``mwem``). Everything else is *bounded* by these marginals, and the number inside is the model's. That theorem is for
Gaussian noise: at a pure price there are no ranges, and questions in SQL are refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import field, replace

import numpy as np

from sfumato.array_types import Floats
from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, SynopsisDamaged, Unsupported, ValueWords
from sfumato.mechanisms import Laplace
from sfumato.plan.sql.parameters import Parameters
from sfumato.policy import Type
from sfumato.privacy import codec
from sfumato.privacy.numbers import DEFAULT_CONFIDENCE, Number
from sfumato.publish.cells import answering
from sfumato.publish.files import fitted_files, model_files, sealed_files, synopsis_files
from sfumato.publish.marginals.attributes import Attributes, summarize_columns
from sfumato.publish.marginals.blocks import AttributeSet
from sfumato.publish.mwem import MwemFit, MwemModel
from sfumato.publish.synopsis import Synopsis, cell_keys, column_indices, key_type
from sfumato.publish.synthetic import Synthetic
from sfumato.publish.synthetic_tables import TABLES_KIND, SyntheticTables
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer import Answer
from sfumato.release.answers.receipts import PREVIEW_MARK, Receipt
from sfumato.release.prices import Price
from sfumato.untrusted import MALFORMED_INPUT, refuse_malformed

_MAX_JSON_CHARACTERS = 1 << 30
"""The most characters of a model's JSON text."""
_NO_RANGE_NOTE = "these counts come from a model fitted to noisy counts, so no range is known for them"


@dataclass(frozen=True)
class FittedRound:
    """One round of MWEM: the columns that were chosen, and which of their cells; None for all cells."""

    columns: tuple[str, ...]
    cells: tuple[int, ...] | None
    counts: tuple[float, ...]
    """The noisy counts of these cells, in rows."""
    price: str
    """The cost of the choice and of the measurement, each a step of its own."""


@codec.serialisable("fitted-model")
@dataclass(frozen=True)
class _FittedModelFile:
    """A model as it is written: what was released for it, and the receipt; the model is fitted again when it is
    read.
    """

    fit: MwemFit
    receipt: Receipt

    def __post_init__(self) -> None:
        for name, kind in (("fit", MwemFit), ("receipt", Receipt)):
            if not isinstance(getattr(self, name), kind):
                given = ValueWords(f"an object of type {type(getattr(self, name)).__name__}")
                raise InvalidParameter(
                    name, given, f"a {kind.__name__} value", fix="load the .sfu file with sf.synopsis(path)"
                )


@codec.written_as("fitted-model")
@dataclass(frozen=True, eq=False)
class FittedModel:
    """A model of a table, fitted by MWEM: it yields every marginal of its columns, without a further charge."""

    fit: MwemFit = field(repr=False)
    receipt: Receipt = field(repr=False)
    model: MwemModel = field(repr=False)

    @property
    def attributes(self) -> Attributes:
        return self.fit.attributes

    @property
    def table(self) -> str:
        return self.fit.table

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns, in their order."""
        return tuple(attribute.name for attribute in self.attributes)

    @property
    def is_preview(self) -> bool:
        """Whether the model was invented from the policy alone: nothing was read, charged or recorded."""
        return self.receipt.is_preview

    @property
    def guarantee(self) -> Price:
        """The guarantee: ε, (ε, δ) or ρ."""
        return self.fit.price

    @property
    def total(self) -> float:
        """The noisy number of rows, which was paid for first."""
        return self.model.total * float(self.fit.unit_value)

    @property
    def planned(self) -> int:
        """The number of rounds that were paid for; fewer were run if the fit was interrupted."""
        return self.fit.planned

    @cached_property
    def rounds(self) -> tuple[FittedRound, ...]:
        """What every round released."""
        step = self.fit.unit_value
        round_price = f"{self.fit.choice.words()}; {self.fit.noise.words(step)}"
        return tuple(
            FittedRound(
                tuple(self.columns[attribute_index] for attribute_index in fit_round.attribute_set),
                fit_round.cells,
                tuple(float(value * step) for value in fit_round.values),
                round_price,
            )
            for fit_round in self.fit.rounds
        )

    def sql(
        self,
        question: str,
        parameters: Parameters | None = None,
        *,
        confidence: Number = DEFAULT_CONFIDENCE,
        together: bool = False,
    ) -> Answer:
        """Answer a question in SQL: free, and any number of times.

        Numbers are *measured* if rounds measured all their columns together, and otherwise *bounded* by what was
        measured, with the model's number inside.
        """
        if isinstance(self.fit.noise, Laplace):
            rule = "a model has ranges only for Gaussian noise, and a price in ε alone has Laplace noise"
            raise Unsupported("pure-price", rule, fix="ask for marginal([…]), or fit a model with a delta or rho")
        return answering.answer_sql(self.face, question, parameters, confidence=confidence, together=together)

    @cached_property
    def face(self) -> answering.QueryableTable:
        """What questions in SQL see of the model."""
        estimates = replace(self.fit.estimates_from_measurements, model_marginal=self._modelled_counts)
        domains = self.fit.face.domains_for(self.attributes)
        return answering.QueryableTable(self.table, self.attributes, domains, estimates, self.receipt, self.fit.where)

    def _modelled_counts(self, attribute_set: AttributeSet) -> Floats:
        """Return the model's counts in all cells of some columns, in rows."""
        summed_axes = tuple(
            attribute_index for attribute_index in range(len(self.attributes)) if attribute_index not in attribute_set
        )
        return np.asarray(self.model.fitted_weights.sum(axis=summed_axes)) * float(self.fit.unit_value)

    def marginal(self, columns: Sequence[str]) -> Answer:
        """Return the model's counts in all cells of some columns, in the order in which these are named."""
        requested = column_indices(columns, self.columns)
        attribute_set, attributes = (
            sorted(requested),
            [self.attributes[attribute_index] for attribute_index in requested],
        )
        counts = (
            self._modelled_counts(tuple(attribute_set))
            .transpose([attribute_set.index(attribute_index) for attribute_index in requested])
            .ravel()
            .tolist()
        )
        names = [attribute.name for attribute in attributes]
        count_name = "count" if "count" not in names else "count_"
        rows = tuple((*key, count) for key, count in zip(cell_keys(attributes), counts, strict=True))
        receipt = replace(self.receipt, question=f"the modelled marginal of {' and '.join(names)}", free=True)
        kinds = (*(key_type(attribute) for attribute in attributes), Type.REAL)
        return Answer((*names, count_name), kinds, rows, {}, tuple(names), receipt, (_NO_RANGE_NOTE,))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file, which ``sf.synopsis(path)`` reads without data, curator or ledger."""
        fitted_files.save(self.fit, self.receipt, path)

    def to_json(self) -> str:
        """Serialize all that was released, and the receipt, as JSON text."""
        return codec.dumps(_FittedModelFile(self.fit, self.receipt))

    @classmethod
    def from_json(cls, source: str) -> FittedModel:
        """Parse the text that ``to_json`` wrote, and fit the model again, bit for bit. Any other text is refused."""
        written = codec.loads_as(_FittedModelFile, source, longest=_MAX_JSON_CHARACTERS)
        fix = "pass the text that FittedModel.to_json() returned"
        with refuse_malformed(lambda: InvalidParameter("source", source, "the JSON text of a fitted model", fix=fix)):
            return cls(written.fit, written.receipt, written.fit.model)

    @classmethod
    def read(cls, content: bytes, place: str) -> FittedModel:
        """Read a model from the bytes of its file, and fit it again, bit for bit."""
        fit, receipt = fitted_files.read(content, place)
        return cls(fit, receipt, fit.model)

    def __repr__(self) -> str:
        lines = [
            f"model      {self.table}, fitted in {len(self.rounds)} of {self.planned} rounds",
            f"columns    {summarize_columns(self.attributes)}",
            f"promise    {self.guarantee}{PREVIEW_MARK if self.is_preview else ''}",
        ]
        return "\n".join(lines)


PublishedObject = Synopsis | FittedModel | Synthetic | SyntheticTables

_SURVEY_FORM_KIND = "survey-file/1"
_READERS: dict[str, Callable[[bytes, str], PublishedObject]] = {
    fitted_files.KIND: FittedModel.read,
    model_files.KIND: Synthetic.read,
    TABLES_KIND: SyntheticTables.read,
}
"""Readers by the kind of the manifest; anything else is read as a synopsis, whose reader reports what is wrong."""


def synopsis(path: str | os.PathLike[str]) -> PublishedObject:
    """Read a published file: no data, curator or ledger is needed, and an edited file is refused.

    A file of marginals gives a ``Synopsis``, one of a synthetic table a ``Synthetic``, one of linked tables
    ``SyntheticTables``, and one of a model that MWEM fitted a ``FittedModel``.
    """
    content = sealed_files.read_file_bytes(path)
    with refuse_malformed(lambda: sealed_files.damaged_file_error(str(path), "its parts do not fit together")):
        return _read_published(content, path)


def _read_published(content: bytes, path: str | os.PathLike[str]) -> PublishedObject:
    kind = _manifest_kind(content, str(path))
    if kind == _SURVEY_FORM_KIND:
        fix = "read it with sf.form(…); the answers are in the reports"
        raise SynopsisDamaged("this file is a survey form, which contains no answers", place=str(path), fix=fix)
    reader = _READERS.get(kind)
    return Synopsis(*synopsis_files.read(content, str(path))) if reader is None else reader(content, str(path))


def _manifest_kind(content: bytes, place: str) -> str:
    """Return the kind that a file's manifest states; the readers verify the rest."""
    for name, member in sealed_files.iterate_members(content, place):
        if name == sealed_files.MANIFEST:
            try:
                return str(json.loads(member, parse_float=str, parse_constant=str)["kind"])
            except MALFORMED_INPUT:
                return ""
    return ""
