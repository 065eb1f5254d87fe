"""The process of one command: it ends before there is garbage worth looking for."""

from __future__ import annotations

from sfumato.cli.common.garbage import collect_rarely


def run() -> None:
    """Run the command that the arguments of the process name."""
    collect_rarely()
    from sfumato.cli import main

    main()


if __name__ == "__main__":
    run()
