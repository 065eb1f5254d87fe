"""Small models for tests: what a synthesis would release, drawn with noise of numpy's."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.ledger import Charged
from sfumato.mechanisms import Exponential, Gaussian, Laplace
from sfumato.policy import Table
from sfumato.publish.graph.fitting import Observation, fit_model
from sfumato.publish.marginals.attributes import PublicTableFacts, coded_attribute
from sfumato.publish.marginals.estimating import MeasuredMarginal
from sfumato.publish.synthesis.candidates import zeros_from_policy
from sfumato.publish.synthesis.released import ImpliedColumn, ReleasedMarginal, ReleasedSynthesis, SynthesisRound
from sfumato.publish.synthetic import Synthetic
from sfumato.release.answers.receipts import Receipt
from sfumato.release.prices import Price

COLUMNS: dict[str, Any] = {
    "sex": {"values": ["f", "m"]},
    "age": {"type": "integer", "bounds": [0, 99], "bins": [0, 18, 65, 99], "spikes": [0]},
    "smokes": {"type": "boolean"},
    "weight": {"type": "real", "bounds": [0, 200], "grid": 0.1, "bins": 4},
    "born": {"type": "date", "bounds": ["1900-01-01", "2024-12-31"], "bins": 3},
    "seen": {"type": "timestamp", "bounds": ["2024-01-01", "2024-12-31 23:59:59"], "bins": "quarter"},
    "town": {"values": ["Aa", "Bé", 'C,"c'], "other": "elsewhere"},
}
SETS = [(), *((place,) for place in range(len(COLUMNS))), (0, 1), (1, 2, 3), (3, 4), (0, 6), (4, 5)]
RECEIPT = Receipt(
    "synthetic rows of people", "one person", "add-remove", "ρ = 0.5", "ε = 3, δ = 1e-06", ("Gaussian",), "whole",
    "≤ 1 row", (), "p" * 64, "version 1", "sfumato", 3, "h" * 64, "2024-01-01T00:00:00", False, "0.95", "",
)  # fmt: skip


def table(impossible: Sequence[str] = (), columns: dict[str, Any] | None = None) -> Table:
    return Table("people", object(), columns or COLUMNS, id="row", impossible=tuple(impossible))


def synthetic(
    *,
    rows: int = 3000,
    deviation: float = 5,
    laplace: bool = False,
    seed: int = 1,
    impossible: Sequence[str] = (),
    columns: dict[str, Any] | None = None,
    sets: Sequence[tuple[int, ...]] = SETS,
    implied: tuple[ImpliedColumn, ...] = (),
    truth: Any = None,
) -> Synthetic:
    """A model of even rows, or of a joint table of truth, measured on these sets."""
    own, draw = table(impossible, columns), np.random.default_rng(seed)
    attributes = tuple(
        coded_attribute(name, own.columns[name], own.codings.get(name)).without_levels for name in own.columns
    )
    sizes, face = (
        tuple(each.size for each in attributes),
        PublicTableFacts(tuple(own.columns.values()), own.impossible, "x"),
    )
    size, marginals = Fraction(deviation).limit_denominator(1000), []
    for places in sets:
        shape = tuple(sizes[place] for place in places)
        if truth is None:
            exact = np.full(shape, rows / max(1, np.prod(shape)))
        else:
            exact = truth.sum(tuple(place for place in range(len(sizes)) if place not in places))
        noise = draw.laplace(0, float(size), shape) if laplace else draw.normal(0, float(size), shape)
        values = np.rint(exact + noise).astype(np.int64).reshape(shape)
        marginals.append(MeasuredMarginal(places, values, size, laplace))
    seen = [
        Observation(each.attribute_set, each.values.astype(float), each.variance**0.5)
        for each in marginals
        if each.attribute_set
    ]
    total = max(1.0, float(marginals[0].values))
    model = fit_model(seen, sizes, total, zeros=zeros_from_policy("people", attributes, face), tolerance=1e-6)
    names = [attribute.name for attribute in attributes]
    rounds = tuple(SynthesisRound(tuple(names[p] for p in each), "first", "some noise") for each in sets[1:])
    noise = Laplace(size) if laplace else Gaussian(size)
    steps = (*(Charged(noise, 1) for _ in sets), Charged(Exponential(Fraction(1, 10), 1, grid=1)))
    price = Price(10) if laplace else Price(rho="0.5")
    released = ReleasedSynthesis(
        "aim", attributes, tuple(map(ReleasedMarginal.encode, marginals)), rounds, total, 40,
        table="people", price=price, face=face, implied=implied,
    )  # fmt: skip
    told = Receipt(**{**RECEIPT.__dict__, "guarantee": str(price)})
    return Synthetic(released, model, told, steps)
