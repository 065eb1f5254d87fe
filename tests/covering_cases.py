"""Cases of a test with several axes: by default each value of each axis, in the long run all combinations."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest


def covering(axes: dict[str, Sequence[Any]]) -> pytest.MarkDecorator:
    """Parametrize a test by the product of its axes; all but a diagonal of the product is marked ``long``.

    The diagonal holds each value of each axis. It is for axes of which every branch is reached by one value, whatever
    the others are: a bug of a value is then seen in its default case.
    """
    steps = range(max(map(len, axes.values())))
    diagonal = {tuple(step % len(values) for values in axes.values()) for step in steps}
    places = product(*(range(len(values)) for values in axes.values()))
    cases = [
        pytest.param(
            *(values[place] for values, place in zip(axes.values(), case, strict=True)),
            marks=() if case in diagonal else pytest.mark.long,
        )
        for case in places
    ]
    return pytest.mark.parametrize(list(axes), cases)
