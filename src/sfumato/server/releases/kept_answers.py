"""An answer is kept as the JSON text by which it is told, and is read again from that alone.

Neither the policy nor the data of today have a part in it: what was bought stays what it was when they change.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from sfumato.privacy import codec
from sfumato.publish.fitted_models import FittedModel
from sfumato.publish.synthetic import Synthetic

_FILES: dict[str, type[FittedModel | Synthetic]] = {"fitted-model": FittedModel, "synthetic": Synthetic}
"""By the name of its kind, what is written as a file of its own inside the text."""


def given_again(written: str) -> Any:
    """Read an answer that was bought; its receipt says that it is free now."""
    of_file = _FILES.get(str(json.loads(written)["kind"]).partition("/")[0])
    answer: Any = codec.loads(written, longest=len(written)) if of_file is None else of_file.from_json(written)
    receipt = getattr(answer, "receipt", None)
    return answer if receipt is None else replace(answer, receipt=replace(receipt, free=True))
