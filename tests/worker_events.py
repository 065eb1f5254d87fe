"""What a worker tells the controller of each test: what the controller shows, and that the test is done.

xdist sends six messages for a test, each with all names that the test goes by, and most say that nothing happened. With
twenty thousand tests a minute of processors went into them.
"""

from __future__ import annotations

from typing import Any

import pytest


def send_only_what_is_shown(config: pytest.Config) -> None:
    """Let this worker send neither that a test begins or ends nor that its fixtures worked; failures are sent whole."""
    (interactor,) = (plugin for plugin in config.pluginmanager.get_plugins() if _is_interactor(plugin))
    send = interactor.sendevent
    shows_fixtures = config.option.durations is not None or config.option.xmlpath is not None

    def send_unless_silent(name: str, **event: Any) -> None:
        if name in ("logstart", "logfinish"):
            return
        if name == "testreport" and event["data"]["outcome"] == "passed":
            if event["data"]["when"] != "call" and not shows_fixtures:
                return
            event["data"]["keywords"] = {}  # only failures and skips are looked up by them
        send(name, **event)

    interactor.sendevent = send_unless_silent


def _is_interactor(plugin: object) -> bool:
    """Return whether this is xdist's; a worker runs the module under a name of its own, so the class is another one."""
    return type(plugin).__name__ == "WorkerInteractor"
