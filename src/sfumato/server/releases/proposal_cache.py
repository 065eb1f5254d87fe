"""A cache of recent proposals, so that the same spec is parsed once; and decoding of stored answers.

A proposal holds no rows and no answer: it is what a curator makes of a spec and its policy. Every user has their own
entries, so nobody learns from the response time what somebody else has asked.

A stored answer is the JSON text that was sent, and is decoded from that alone: later changes of the policy or the data
do not change what was bought.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from sfumato.curator.listings import Listing
from sfumato.plan.values.expressions import noise_count
from sfumato.policy import Policy, Type
from sfumato.privacy import codec
from sfumato.publish.published_files import FittedModel
from sfumato.publish.synthetic import Synthetic
from sfumato.publish.synthetic_tables import SyntheticTables
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer_columns import AnswerColumn, Columns

_MAX_CACHED = 256


class ProposalKey(NamedTuple):
    """Cache key of a proposal: user, kind, spec, whether it may spend, and the last ledger line whose answers it
    finds.
    """

    user: str
    kind: str
    spec: str
    spends: bool
    until: int | None


@dataclass(frozen=True)
class ProposalFacts:
    """What is known of a proposal without a price: its text, columns and warnings."""

    text: str
    columns: Columns | dict[str, Columns]
    warnings: tuple[str, ...]
    free: bool

    @classmethod
    def from_proposal(cls, proposal: Any) -> ProposalFacts:
        warnings, free = getattr(proposal, "warnings", ()), getattr(proposal, "free", False)
        return cls(getattr(proposal, "text", ""), proposal.columns, tuple(warnings), free)


@dataclass(frozen=True)
class DescribedQuestion:
    """The columns of a question's answer, known before it is asked."""

    columns: Columns
    noisy_columns: tuple[str, ...]
    """The names of the columns of noisy numbers, which have an interval."""
    free: bool
    """Whether it needs no price: a listing of what the policy declares."""

    @classmethod
    def from_proposal(cls, proposal: Any) -> DescribedQuestion:
        if isinstance(proposal, Listing):
            return cls(tuple(AnswerColumn(name, Type.TEXT) for name in proposal.columns), (), True)
        numbers = [column.name for column in proposal.columns if column.type.numeric]
        noises = {output.name: noise_count(output.expression) for output in proposal.query.outputs}
        return cls(proposal.columns, tuple(name for name in numbers if noises[name]), False)


class ProposalCache:
    """A least-recently-used cache of the proposals of one opened curator."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cache: OrderedDict[ProposalKey, tuple[Policy, Any]] = OrderedDict()

    def get_or_make(self, key: ProposalKey, policy: Policy, make: Callable[[], Any]) -> Any:
        """Return the cached proposal of this key under this very policy object, or make it."""
        with self._lock:
            cached = self._cache.get(key)
            if cached is not None and cached[0] is policy:
                self._cache.move_to_end(key)
                return cached[1]
        proposal = make()
        with self._lock:
            self._cache[key] = policy, proposal
            self._cache.move_to_end(key)
            while len(self._cache) > _MAX_CACHED:
                self._cache.popitem(last=False)
        return proposal


_FILE_CLASSES: dict[str, type[FittedModel | Synthetic | SyntheticTables]] = {
    "fitted-model": FittedModel,
    "synthetic": Synthetic,
    "synthetic-tables": SyntheticTables,
}
"""By kind, the classes with a file format of their own."""


def decode_stored_answer(text: str) -> Any:
    """Decode a stored answer; its receipt says that it is free now."""
    file_class = _FILE_CLASSES.get(str(json.loads(text)["kind"]).partition("/")[0])
    answer: Any = codec.loads(text, longest=len(text)) if file_class is None else file_class.from_json(text)
    receipt = getattr(answer, "receipt", None)
    return answer if receipt is None else replace(answer, receipt=replace(receipt, free=True))
