"""These proposals were made lately, and are kept so that the same text is understood once.

A proposal holds no row and no answer: it is what a curator makes of a text and its policy. Everybody has their own, so
nobody learns from how long theirs takes what somebody else has asked.

An answer is kept as the JSON text by which it is told, and is read again from that alone.

Neither the policy nor the data of today have a part in it: what was bought stays what it was when they change.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from sfumato.policy import Policy
from sfumato.privacy import codec
from sfumato.publish.published_files import FittedModel
from sfumato.publish.synthetic import Synthetic
from sfumato.release.answers.answer_columns import Columns

_MOST = 256


class Sent(NamedTuple):
    """This names a proposal: who sent what, whether it may spend, and the last line whose answers it finds."""

    user: str
    kind: str
    spec: str
    spends: bool
    until: int | None


@dataclass(frozen=True)
class Proposed:
    """This is what is known of a proposal without a price."""

    text: str
    columns: Columns | dict[str, Columns]
    warnings: tuple[str, ...]
    free: bool

    @classmethod
    def of(cls, proposal: Any) -> Proposed:
        """Say of a proposal what it says itself."""
        warnings, free = getattr(proposal, "warnings", ()), getattr(proposal, "free", False)
        return cls(getattr(proposal, "text", ""), proposal.columns, tuple(warnings), free)


class KnownProposals:
    """These are the proposals of one opened curator: they go when it does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[Sent, tuple[Policy, Any]] = OrderedDict()

    def of(self, sent: Sent, policy: Policy, make: Callable[[], Any]) -> Any:
        """Give the proposal that was made of the same, under the very same policy, or make it."""
        with self._lock:
            known = self._known.get(sent)
            if known is not None and known[0] is policy:
                self._known.move_to_end(sent)
                return known[1]
        made = make()
        with self._lock:
            self._known[sent] = policy, made
            self._known.move_to_end(sent)
            while len(self._known) > _MOST:
                self._known.popitem(last=False)
        return made


_FILES: dict[str, type[FittedModel | Synthetic]] = {"fitted-model": FittedModel, "synthetic": Synthetic}
"""By the name of its kind, what is written as a file of its own inside the text."""


def given_again(written: str) -> Any:
    """Read an answer that was bought; its receipt says that it is free now."""
    of_file = _FILES.get(str(json.loads(written)["kind"]).partition("/")[0])
    answer: Any = codec.loads(written, longest=len(written)) if of_file is None else of_file.from_json(written)
    receipt = getattr(answer, "receipt", None)
    return answer if receipt is None else replace(answer, receipt=replace(receipt, free=True))
