"""The commands of reports: a page, a key, a bundle and its verification."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from cli.running import COUNTS, run, spent
from sfumato.reports import PublicKey


@pytest.fixture
def asked(policy: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One question was asked; commands run in the policy's folder."""
    assert run("query", policy, COUNTS, "--epsilon", "0.5").exit_code == 0
    monkeypatch.chdir(policy.parent)
    return policy


def test_a_page_is_written(asked: Path) -> None:
    before = spent(asked)
    hidden = run("report", asked)
    assert hidden.exit_code == 0, hidden.output
    assert "report.html: 0 of 1 questions are shown" in hidden.output
    assert COUNTS not in Path("report.html").read_text(encoding="utf-8")
    shown = run("report", asked, "-o", "shown.html", "--questions", "--title", "Flights of a summer")
    assert "all 1 questions are shown" in shown.output
    page = Path("shown.html").read_text(encoding="utf-8")
    assert COUNTS in page
    assert "<h1>Flights of a summer</h1>" in page
    assert run("report", asked, "--questions", "4").exit_code == 0
    assert spent(asked) == before


def test_a_page_is_refused_where_it_would_do_harm(asked: Path) -> None:
    assert run("report", asked, "-o", asked).exit_code == 2
    assert run("report", asked, "-o", "flights.parquet").exit_code == 2
    assert run("report", asked, "-o", "sfumato.ledger").exit_code == 2
    assert run("report", asked, "-o", "page.txt").exit_code == 1
    unknown = run("report", asked, "--questions", "99")
    assert unknown.exit_code == 2
    assert "sfumato history" in unknown.output


def test_a_bundle_is_signed_and_verified(asked: Path) -> None:
    made = run("key", "new", "owner.key")
    assert made.exit_code == 0, made.output
    assert stat.S_IMODE(Path("owner.key").stat().st_mode) == 0o600
    fingerprint = PublicKey.read("owner.key.pub").fingerprint
    assert fingerprint in made.output
    assert fingerprint in run("key", "show", "owner.key").output
    bundled = run("bundle", asked, "--key", "owner.key", "--questions")
    assert bundled.exit_code == 0, bundled.output
    assert f"signed by {fingerprint}" in bundled.output
    found = run("verify", "bundle.zip", "--key", "owner.key.pub", "--policy", asked)
    assert found.exit_code == 0, found.output
    assert "the key you gave" in found.output
    assert "Not proved:" in found.output
    facts = json.loads(run("verify", "bundle.zip", "--json").output)
    assert facts["key"] == Path("owner.key.pub").read_text().strip()
    assert run("verify", "bundle.zip", "--key", facts["key"]).exit_code == 0
    content = bytearray(Path("bundle.zip").read_bytes())
    content[len(content) // 2] ^= 1
    Path("changed.zip").write_bytes(content)
    refused = run("verify", "changed.zip")
    assert refused.exit_code == 1
    assert "this bundle is not accepted" in refused.output


def test_a_passphrase_is_asked_for_where_there_is_one(asked: Path) -> None:
    made = run("key", "new", "owner.key", "--passphrase", given="horse\nhorse\n")
    assert made.exit_code == 0, made.output
    assert "horse" not in made.output
    assert run("bundle", asked, "--key", "owner.key", given="horse\n").exit_code == 0
    assert run("bundle", asked, "--key", "owner.key", given="cow\n").exit_code == 1
    Path("secret").write_text("horse\n")
    assert run("bundle", asked, "--key", "owner.key", "--passphrase-file", "secret").exit_code == 0
    assert run("key", "show", "owner.key", "--passphrase-file", "secret").exit_code == 0
    Path("secret").write_text("\n")
    assert run("key", "show", "owner.key", "--passphrase-file", "secret").exit_code == 2
    assert run("key", "show", "owner.key", "--passphrase-file", "missing").exit_code == 2


def test_wrong_usage_is_said(asked: Path) -> None:
    assert run("key", "new", "owner.key").exit_code == 0
    assert run("key", "new", "owner.key").exit_code == 1
    assert run("bundle", asked).exit_code == 2
    assert run("bundle", asked, "--key", "owner.key", "-o", "owner.key").exit_code == 2
    assert run("verify", "missing.zip").exit_code == 1
    assert run("verify", "missing.zip", "--ledger", "x").exit_code == 2
    assert Path("owner.key").read_text().startswith("-----BEGIN PRIVATE KEY-----")


def test_a_policy_that_has_changed_shows_what_it_can(asked: Path) -> None:
    """It said that all answers are shown, and of each that it may be a model, or the policy have changed."""
    before = asked.read_text()
    asked.write_text(before.replace("max_rows = 100", "max_rows = 99"))
    assert before != asked.read_text()
    found = run("report", asked, "--questions")
    assert "except 1 answer that only the earlier policy can show" in found.output
    page = Path("report.html").read_text(encoding="utf-8")
    assert COUNTS in page
    assert page.count("The policy has changed since this was answered") == 1
    asked.write_text(before)
    assert ", except" not in run("report", asked, "--questions").output
    assert "The policy has changed" not in Path("report.html").read_text(encoding="utf-8")


def test_bounds_and_the_steps_of_a_model_are_told_in_words(asked: Path) -> None:
    bought = run("bounds", asked, "flights", "delay", "--epsilon", "0.25")
    assert bought.exit_code == 0, bought.output
    how = ("--columns", "origin,carrier", "--epsilon", "0.5", "-o", "rows.csv")
    made = run("synthesize", asked, "flights", *how)
    assert made.exit_code == 0, made.output
    assert run("report", asked, "--questions").exit_code == 0
    page = Path("report.html").read_text(encoding="utf-8")
    assert page.count("Private bounds: delay in [") == 1
    assert page.count("is one step of a larger release") == 1
    assert page.count("<summary>each step</summary>") == 1
    assert page.count("salt ") >= page.count("Line ") > 6  # every step has its proof
    assert "The policy has changed" not in page


def test_a_ledger_of_other_accounts_says_which_it_has(asked: Path) -> None:
    other = asked.with_name("other.toml")
    other.write_text(asked.read_text())
    refused = run("report", other)
    assert refused.exit_code == 1
    assert "this ledger has no account named 'other'" in refused.stderr
    assert f"{asked.stem}.toml" in refused.stderr
