"""``sfumato online``: what it prints, what it spends, how it refuses and ends."""

from __future__ import annotations

from pathlib import Path

import pytest

import sfumato as sf
from cli.running import run, spent
from sfumato.curator import OnlineSession

INSIDE = "SELECT origin, COUNT(*) AS n FROM flights GROUP BY origin"
OUTSIDE = "SELECT origin, COUNT(*) AS n\nFROM flights WHERE carrier = 'UA' AND distance < 1000 GROUP BY origin"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    found = sf.example(tmp_path / "flights")
    text = found.read_text().replace("bounds = [0, 5000] }", "bounds = [0, 5000], bins = [0, 1000, 5000] }")
    found.write_text(text.replace("max_rows = 100", "max_rows = 5"))
    return found


def session(policy: Path, *more: str | Path) -> tuple[str | Path, ...]:
    own = "--columns", "origin, carrier,distance", "--ways", "2", "--rounds", "2", "--epsilon", "2", "--delta", "1e-9"
    return ("online", policy, "flights", *own, *more)


def charged(policy: Path) -> int:
    path = policy.parent / "sfumato.ledger"
    if not path.exists():
        return 0
    with sf.Curator(policy) as curator:
        return sum("online session" in line.question for line in curator.history())


def test_questions_are_read_up_to_their_semicolons_and_one_charge_is_made(policy: Path) -> None:
    done = run(*session(policy), given=f"\n;\n{INSIDE}; {INSIDE};\n\\left\n{OUTSIDE};\n\\?\n{INSIDE}")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.count("n: measured (2 rounds left)") == 3
    assert done.stdout.count("n: hypothesis") + done.stdout.count("n: bought now") == 1
    assert "2 of 2 rounds left" in done.stdout
    assert "bought now   the private test" in done.stdout
    assert any(line.startswith("protects") for line in done.stdout.splitlines()[-5:])
    assert charged(policy) == 1


def test_json_is_one_answer_a_line_and_what_cannot_be_asked_is_refused_by_itself(policy: Path) -> None:
    given = f"SELECT nonsense;\n\\what\nSELECT 'open;\n{INSIDE};\n\\q\n{INSIDE};"
    done = run(*session(policy, "--json"), given=given)
    assert done.exit_code == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert sf.Answer.from_json(line).basis == {"n": ("measured",) * 3}
    assert done.stderr.count("fix:") == 2
    assert "there is no command \\what" in done.stderr


def test_explaining_and_wrong_prices_spend_nothing(policy: Path) -> None:
    explained = run(*session(policy, "--explain"))
    assert "charged in full when it opens" in explained.stdout
    assert run(*session(policy, "--within", "50")).exit_code == 2
    assert run(*session(policy)[:-2]).exit_code == 2  # no delta
    assert run("online", policy, "flights", "--columns", "origin,nothing", "--epsilon", "1").exit_code == 2
    assert spent(policy) == charged(policy) == 0


def test_the_least_price_within_an_error_is_found(policy: Path) -> None:
    asked = session(policy)[:-4]
    said = run(*asked, "--within", "20000", "--delta", "1e-9", "--explain")
    assert said.exit_code == 0, said.stderr
    assert "is within ±20,000" in said.stdout or "is within ±19," in said.stdout


def test_ctrl_c_closes_the_session(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[OnlineSession] = []

    def stopped(self: OnlineSession, *_: object, **__: object) -> None:
        held.append(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(OnlineSession, "sql", stopped)
    done = run(*session(policy), given=f"{INSIDE};\n{INSIDE};")
    assert done.exit_code == 130
    assert "is closed; its charge stands" in done.stderr
    assert len(held) == 1
    assert held[0].remaining == 0
    assert charged(policy) == 1
