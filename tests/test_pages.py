"""The pages keep their word: shell examples are run, and what is generated from the code is up to date."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

import sfumato as sf
from sfumato.cli import main

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "examples" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"```(sh|text)\n(.*?)```", re.S)


def _reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs/reference/make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_list_of_what_can_be_asked_is_up_to_date() -> None:
    made = _reference()
    assert made.PAGE.read_text() == made.page(), "run .venv/bin/python docs/reference/make.py"


def test_the_list_is_whole() -> None:
    from sfumato.plan.values.functions import FUNCTIONS

    page = _reference().page().replace("\\|", "|")
    assert all(f"| `{each.signature}` |" in page for each in FUNCTIONS.values())


def test_every_example_on_the_list_is_answered_or_refused_as_it_says() -> None:
    made = _reference()
    with sf.open(sf.example()) as flights:
        for _, _, question in (*made.AGGREGATES, *made.CLAUSES):
            assert flights.sql(question).explain(), question
        for _, question, code, _ in made.REFUSED:
            with pytest.raises(sf.Unsupported) as refusal:
                flights.sql(question)
            assert refusal.value.code == code, question


def _steady(output: str) -> list[str]:
    """Words and public numbers: without noisy numbers, hashes, times, and the room that alignment takes."""
    output = re.sub(r"-?[\d,.]+ ± [\d,.]+", "N ± N", output)
    output = re.sub(r"-?[\d,.]+ to -?[\d,.]+, perhaps -?[\d,.]+", "N to N, perhaps N", output)
    output = re.sub(r"\b[0-9a-f]{16}\b", "HASH", output)
    output = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?", "TIME", output)
    output = re.sub(r"─+", "─", output)
    return [" ".join(line.split()) for line in output.strip().splitlines()]


def _examples(page: Path) -> list[tuple[str, str | None]]:
    """Shell blocks in order, each with the text block that follows at once: what it prints."""
    text = page.read_text()
    found: list[tuple[str, str | None]] = []
    end = -1
    for block in BLOCK.finditer(text):
        kind, body = block.groups()
        if kind == "sh":
            found.append((body, None))
        elif found and not text[end : block.start()].strip():
            found[-1] = (found[-1][0], body)
        end = block.end()
    return found


def _run(command: str) -> str:
    words = shlex.split(command, comments=True)
    done = CliRunner().invoke(main, words[1:])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.output


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_shell_examples_print_what_is_shown(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of a page in one folder, in order; only sfumato's own commands, from the one that makes the example on."""
    monkeypatch.chdir(tmp_path)
    for body, shown in _examples(page):
        printed = ""
        for line in body.strip().replace("\\\n", " ").splitlines():
            if line.startswith("cp ") and line.endswith(" ."):
                for name in line.split()[1:-1]:
                    shutil.copy(ROOT / name, tmp_path)
            if line.startswith("sfumato demo --keep") or (line.startswith("sfumato ") and any(tmp_path.iterdir())):
                printed += _run(line)
        if shown is not None and printed:
            assert _steady(printed) == _steady(shown), body


@pytest.mark.parametrize(("page", "policy"), [("publish", "people"), ("synthesize", "synthetic")])
def test_the_policy_that_is_shown_is_the_one_that_is_used(page: str, policy: str) -> None:
    shown = re.findall(r"```toml\n(.*?)```", (ROOT / f"docs/tutorials/{page}.md").read_text(), re.S)
    assert shown == [(ROOT / f"docs/tutorials/{policy}.toml").read_text()]


def test_the_examples_are_found() -> None:
    assert any(shown for _, shown in _examples(ROOT / "README.md"))
    assert _steady("n\n──\n12,345 ± 67 at ε = 2\n") == ["n", "─", "N ± N at ε = 2"]
    assert _steady("left 2") != _steady("left 3")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_every_page_is_listed() -> None:
    listed = (ROOT / "docs/README.md").read_text()
    for page in PAGES:
        if page.name != "README.md":
            assert str(page.relative_to(ROOT / "docs")) in listed, page
