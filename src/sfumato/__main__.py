"""The process of one command: a short one ends before there is garbage worth looking for."""

from __future__ import annotations

import sys

from sfumato.garbage import collect_rarely

_SHORT_COMMANDS = frozenset({"ask", "budget", "describe", "history", "query", "read"})


def run() -> None:
    """Run the command that the arguments of the process name."""
    if not _SHORT_COMMANDS.isdisjoint(sys.argv[1:2]):
        collect_rarely()
    from sfumato.cli import main

    main()


if __name__ == "__main__":
    run()
