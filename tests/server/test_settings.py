"""Settings are checked like a policy: every mistake is refused by its key."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from sfumato.errors import InvalidSettings
from sfumato.server.settings import ServerSettings, build_settings, read_settings

WHOLE = """
listen = "0.0.0.0:443"
public_url = "https://sfumato.example.org"
proxies = ["10.0.0.0/8"]
processes = 2
answer_after = 0.5
free_per_second = 5
releases_at_once = 3
queue = 10
body_bytes = 1000
session_hours = 1
drain_seconds = 30
log = "calls.log"
"""


def test_without_a_file_it_listens_to_this_machine_alone() -> None:
    assert ServerSettings().listen == "127.0.0.1:8765"
    assert ServerSettings().local
    assert (ServerSettings().free_per_second, ServerSettings().releases_at_once, ServerSettings().queue) == (20, 2, 64)
    assert (ServerSettings().body_bytes, ServerSettings().session_hours, ServerSettings().drain_seconds) == (
        65536,
        12,
        660,
    )


def test_every_key_is_read(tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text(WHOLE)
    found = read_settings(file)
    assert (found.processes, found.answer_after, found.queue, found.releases_at_once) == (2, 0.5, 10, 3)
    assert (found.body_bytes, found.session_hours, found.drain_seconds) == (1000, 1, 30)
    assert found.log == str(tmp_path / "calls.log")
    assert not found.local
    assert found.secure


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ("answer_afer = 1", "answer_afer"),
        ("answer_after = 0", "answer_after"),
        ("answer_after = inf", "answer_after"),
        ('answer_after = "soon"', "answer_after"),
        ("processes = 0", "processes"),
        ("processes = 1.5", "processes"),
        ("drain_seconds = 0", "drain_seconds"),
        ("queue = true", "queue"),
        ("listen = 8765", "listen"),
        ('listen = "localhost"', "listen"),
        ('listen = "127.0.0.1:99999"', "listen"),
        ('listen = "unix:"', "listen"),
        ('listen = "0.0.0.0:8765"', "listen"),
        ('listen = "0.0.0.0:8765"\npublic_url = "https://x.org"', "listen"),
        ('listen = "0.0.0.0:8765"\npublic_url = "http://x.org"\nproxies = ["10.0.0.1"]', "listen"),
        ('certificate = "a.pem"', "certificate_key"),
        ('certificate_key = "a.pem"', "certificate"),
        ('proxies = "10.0.0.1"', "proxies"),
        ('proxies = ["proxy"]', "proxies"),
        ('public_url = "sfumato.example.org"', "public_url"),
        ("log = 3", "log"),
    ],
)
def test_a_mistake_is_refused_by_its_key(written: str, place: str, tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text(written)
    with pytest.raises(InvalidSettings) as refused:
        read_settings(file)
    assert refused.value.place == place


@pytest.mark.parametrize("content", [b"listen = ", b"\xff\xfe", b"x" * (1 << 21)])
def test_what_is_no_settings_file_is_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_bytes(content)
    with pytest.raises(InvalidSettings):
        read_settings(file)
    with pytest.raises(InvalidSettings):
        read_settings(tmp_path / "missing.toml")


@pytest.mark.parametrize(
    "given",
    [
        {"listen": "0.0.0.0:443", "certificate": "a.pem", "certificate_key": "b.pem"},
        {"listen": "[::1]:8765"},
        {"listen": "unix:/run/sfumato.sock"},
    ],
)
def test_addresses_that_keep_tokens_to_themselves_are_taken(given: dict[str, Any]) -> None:
    assert ServerSettings(**given).listen == given["listen"]


def test_the_settings_that_are_shown_are_settings(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/reference/server.md").read_text()
    shown = re.findall(r"```toml\n(.*?)```", page, re.S)
    assert len(shown) == 3
    for each in shown:
        (tmp_path / "server.toml").write_text(each)
        read_settings(tmp_path / "server.toml")
    named = set(re.findall(r"^(\w+) = ", "\n".join(shown), re.M))
    assert named == {field.name for field in fields(ServerSettings)}


def test_the_page_about_serving_shows_the_defaults() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "server.md").read_text()
    shown = tomllib.loads(page.partition("defaults:\n\n```toml\n")[2].partition("```")[0])
    assert shown
    assert build_settings(shown, Path()) == ServerSettings()
