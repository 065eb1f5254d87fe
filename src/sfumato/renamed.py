"""Names of version 0.1 that are accepted for one more release."""

from __future__ import annotations

import warnings
from typing import Any


class RehearseAlias:
    """A proposal whose ``preview`` is also found as ``rehearse``, with a warning."""

    def rehearse(self, *price: Any, **terms: Any) -> Any:
        """Preview: the name until version 0.1."""
        warnings.warn("rehearse() is now called preview()", DeprecationWarning, stacklevel=2)
        return self.preview(*price, **terms)  # type: ignore[attr-defined]
