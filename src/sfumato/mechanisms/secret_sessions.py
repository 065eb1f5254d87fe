"""A session keeps a secret between its answers, so there is one of it, and it forgets when it ends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class SecretSession(ABC):
    """This can be neither copied nor stored, and a ``with`` statement closes it."""

    @abstractmethod
    def close(self) -> None:
        """Forget the secret."""

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a session holds a secret and cannot be copied or stored")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
