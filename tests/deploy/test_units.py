"""The systemd unit and the container files say what the pages promise: no root, no capability, nothing writable."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

DEPLOY = Path(__file__).parents[2] / "deploy"
MOST_EXPOSED = 2.0
"""The largest exposure that ``systemd-analyze security`` may find, of 10."""


def unit_settings() -> dict[str, list[str]]:
    """Return the values of each key of the unit, in order."""
    settings: dict[str, list[str]] = {}
    for line in (DEPLOY / "sfumato.service").read_text().splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            settings.setdefault(key, []).append(value)
    return settings


def test_the_unit_is_hardly_exposed() -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    said = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", str(DEPLOY / "sfumato.service")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = re.search(r"Overall exposure level for \S+: (\d+\.\d+)", said)
    assert found is not None, said
    assert float(found[1]) <= MOST_EXPOSED, said


def test_the_unit_waits_for_what_was_charged() -> None:
    from sfumato.server.settings import ServerSettings

    settings = unit_settings()
    assert int(settings["TimeoutStopSec"][0]) > ServerSettings().drain_seconds + 5
    assert settings["UMask"] == ["0077"]
    assert settings["ReadWritePaths"] == [settings["WorkingDirectory"][0]]


def test_the_container_is_built_in_stages_and_runs_as_nobody_special() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    instructions = re.findall(r"^([A-Z]+)\s+(.*(?:\\\n.*)*)", text, re.MULTILINE)
    images = [rest.split()[0] for name, rest in instructions if name == "FROM"]
    assert len(images) == 2
    assert all(re.fullmatch(r"docker\.io/library/python:3\.\d+-slim-\w+", image) for image in images)
    last_stage = instructions[[name for name, _ in instructions].index("FROM", 1) :]
    users = [rest for name, rest in last_stage if name == "USER"]
    assert users == ["10001:10001"]
    assert {"HEALTHCHECK", "VOLUME", "STOPSIGNAL", "ENTRYPOINT"} <= {name for name, _ in last_stage}
    assert not any("pip" in rest or "apt" in rest for _, rest in last_stage)
    root = DEPLOY.parent
    copied = [rest.split() for name, rest in instructions if name == "COPY" and "--from" not in rest]
    assert all((root / source).exists() for *sources, _ in copied for source in sources)


def test_every_service_of_the_compose_file_drops_what_it_can() -> None:
    yaml = pytest.importorskip("yaml")
    services: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    for name in ("server", "proxy"):
        service = services["services"][name]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["user"] == "10001:10001"
        assert service["security_opt"] == ["no-new-privileges:true"]
    server = services["services"]["server"]
    assert "ports" not in server
    assert services["networks"][server["networks"][0]] == {"internal": True}
    assert "./policy:/srv/sfumato/policy:ro" in server["volumes"]
    named = {source for service in services["services"].values() for source in service.get("secrets", ())}
    assert named == set(services["secrets"])
