"""``sfumato query``: what it prints, what it spends, how it refuses."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

import sfumato as sf
from cli.running import COUNTS, run, spent
from forked_commands import run_forked
from sfumato.cli.common.exit_codes import EXIT_CODE_MEANINGS
from sfumato.errors import OUTCOMES

AIRPORTS = {"EWR", "JFK", "LGA"}
NOTED = "warning: Rows with an undeclared value of origin are in no group.\n"


def test_a_table_with_ranges_and_who_is_protected(policy: Path) -> None:
    done = run("query", policy, COUNTS, "--epsilon", "0.5")
    assert done.exit_code == 0, done.stderr
    header, rule, *rows = done.stdout.splitlines()
    assert header.split() == ["origin", "flights"]
    assert set(rule) == {"─"}
    assert {row.split()[0] for row in rows[:3]} == AIRPORTS
    assert all("±" in row for row in rows[:3])
    assert "all rows of one plane" in done.stdout
    assert "ε = 0.5" in done.stdout
    assert done.stderr == NOTED
    assert spent(policy) == 0.5


def test_weights_say_how_much_the_error_of_a_column_counts(policy: Path) -> None:
    asked = "SELECT COUNT(*) AS n, STDDEV(delay) AS sd FROM flights"
    plain, heavy = (
        run("query", policy, asked, "--epsilon", "0.5", "--dry-run", "--json", *more)
        for more in ((), ("--weight", "n=4"))
    )
    assert heavy.exit_code == 0, heavy.stderr
    errors = [float(json.loads(done.stdout)["columns"]["n"]) for done in (plain, heavy)]
    assert errors[1] < 0.9 * errors[0]
    for given, told in (
        (("n=0",), "--weight for 'n' must be"),
        (("n=-2",), "--weight for 'n' must be"),
        (("flights=2",), "columns of noisy numbers (n, sd)"),
        (("2",), "COLUMN=NUMBER"),
        (("n=2", "n=3"), "only once for each column"),
    ):
        options = [part for each in given for part in ("--weight", each)]
        refused = run("query", policy, asked, "--epsilon", "0.5", *options)
        assert refused.exit_code == 2
        assert told in refused.stderr
    assert spent(policy) == 0


def test_medians_show_ranks_and_bought_ranges(policy: Path) -> None:
    text = "SELECT MEDIAN(delay) AS m FROM flights"
    plain = run("query", policy, text, "--epsilon", "0.5")
    assert "rows of its rank with 95 % confidence" in plain.output
    ranged = run("query", policy, text, "--epsilon", "0.5", "--range", "value", "--fresh")
    assert " in [" in ranged.output
    assert "rows of its rank" in run("query", policy, text, "--epsilon", "0.5", "--dry-run").output
    assert run("query", policy, text, "--epsilon", "0.5", "--range", "rank").exit_code == 2


def test_limits_count_less_of_one_unit_for_less_noise(policy: Path) -> None:
    wide, narrow = (
        run("query", policy, COUNTS, "--epsilon", "0.5", "--dry-run", "--json", *more)
        for more in ((), ("--limit", "rows=20", "--limit", "groups=2"))
    )
    assert narrow.exit_code == 0, narrow.stderr
    errors = [json.loads(done.stdout)["columns"]["flights"] for done in (wide, narrow)]
    assert float(errors[1]) < float(errors[0]) / 3
    for given, told in (
        (("rows=1000",), "a question can only lower the policy's limits"),
        (("rows=0",), "≥ 1"),
        (("rows",), "rows=NUMBER"),
        (("columns=3",), "rows=NUMBER"),
        (("rows=3", "rows=4"), "each at most once"),
    ):
        options = [part for each in given for part in ("--limit", each)]
        refused = run("query", policy, COUNTS, "--epsilon", "0.5", *options)
        assert refused.exit_code == 2
        assert told in refused.stderr
    listed = run("query", policy, "SHOW TABLES", "--limit", "rows=3")
    assert (listed.exit_code, "leave out --limit" in listed.stderr) == (2, True)
    assert spent(policy) == 0


def test_what_is_free_needs_no_price(policy: Path) -> None:
    for text, first in (
        ("SELECT DISTINCT origin FROM flights", "EWR"),
        ("SHOW TABLES", "flights"),
        ("DESCRIBE flights", "tailnum"),
    ):
        done = run("query", policy, text)
        assert done.exit_code == 0, done.stderr
        assert done.stdout.splitlines()[2].split()[0] == first
        assert run("query", policy, text, "--dry-run").exit_code == 0
    assert spent(policy) == 0
    refused = run("query", policy, COUNTS)
    assert refused.exit_code == 2
    assert "there is no default" in refused.stderr


def test_a_missing_parameter_is_told_its_option(policy: Path) -> None:
    refused = run("query", policy, "SELECT COUNT(*) FROM flights WHERE delay > $late", "--epsilon", "1")
    assert refused.exit_code == 1
    assert "--param" in refused.stderr


def test_json_holds_rows_ranges_and_receipt(policy: Path) -> None:
    found = json.loads(run("query", policy, COUNTS, "--epsilon", "0.5", "--json").stdout)
    assert found["columns"] == ["origin", "flights"]
    assert {row[0] for row in found["rows"]} == AIRPORTS
    for (low, high), row in zip(found["intervals"]["flights"], found["rows"], strict=True):
        assert low < row[1] < high
    assert found["receipt"]["guarantee"] == "ε = 0.5"


def test_csv_is_read_back_by_a_spreadsheet(policy: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(run("query", policy, COUNTS, "--epsilon", "0.5", "--csv").stdout)))
    assert {row["origin"] for row in rows} == AIRPORTS
    assert all(float(row["flights_low"]) < float(row["flights"]) < float(row["flights_high"]) for row in rows)


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_a_picture_is_written(policy: Path, kind: str) -> None:
    picture = policy.with_name(f"out.{kind}")
    assert run("query", policy, COUNTS, "--epsilon", "0.5", "--plot", picture).exit_code == 0
    assert picture.read_bytes().startswith({"svg": b"<svg", "png": b"\x89PNG"}[kind])


@pytest.mark.parametrize("how", ["--dry-run", "--explain"])
def test_the_error_is_drawn_against_the_price_before_it_is_spent(policy: Path, how: str) -> None:
    picture = policy.with_name("errors.svg")
    done = run("query", policy, COUNTS, "--epsilon", "0.5", how, "--plot", picture)
    assert done.exit_code == 0, done.stderr
    assert "flights: half-width (±)" in picture.read_text()
    assert spent(policy) == 0
    assert run("query", policy, "SHOW TABLES", "--dry-run", "--plot", picture).exit_code == 2


def test_currencies_are_shown_under_details_alone(policy: Path) -> None:
    plain = run("query", policy, COUNTS, "--epsilon", "0.5").stdout
    found = run("query", policy, COUNTS, "--epsilon", "0.5", "--details").stdout
    assert "pure" not in plain
    assert [line.split()[0] for line in found.splitlines() if "0.5" in line and "pure" in line] == ["pure"]
    assert found.index("left for ordinary answers") < found.index("pure")
    assert json.loads(run("query", policy, COUNTS, "--epsilon", "0.5", "--details", "--json").stdout)


def test_a_refused_price_shows_its_currencies_under_details_alone(policy: Path) -> None:
    plain = run("query", policy, COUNTS, "--epsilon", "1000")
    found = run("query", policy, COUNTS, "--epsilon", "1000", "--details")
    assert plain.exit_code == found.exit_code == 3
    assert "pure: requested 1000" not in plain.stderr
    assert found.stderr.startswith(plain.stderr)
    assert "pure: requested 1000" in found.stderr.removeprefix(plain.stderr)


def test_the_whole_receipt_on_demand(policy: Path) -> None:
    found = run("query", policy, COUNTS, "--epsilon", "0.5", "--receipt").stdout
    assert all(word in found for word in ("limits", "bounds", "ledger", "95 % confidence"))


def test_sql_from_stdin(policy: Path) -> None:
    done = run("query", policy, "-", "--rho", "0.01", "--json", given=COUNTS)
    assert done.exit_code == 0
    assert json.loads(done.stdout)["receipt"]["guarantee"] == "ρ = 0.01"


def test_explaining_and_dry_runs_spend_nothing_and_agree_with_the_answer(policy: Path) -> None:
    explained = run("query", policy, COUNTS, "--explain")
    assert explained.exit_code == 0
    assert "one unit changes it by at most 100" in explained.stdout
    assert json.loads(run("query", policy, COUNTS, "--explain", "--json").stdout)["price"] == "ε = 1"
    dry = run("query", policy, COUNTS, "--within", "500", "--dry-run")
    assert "flights ±499.9" in dry.stdout or "flights ±500" in dry.stdout
    assert "would accept it now" in dry.stdout
    forecast = json.loads(run("query", policy, COUNTS, "--within", "flights=500", "--dry-run", "--json").stdout)
    assert forecast["accepted"] is True
    assert spent(policy) == 0
    found = json.loads(run("query", policy, COUNTS, "--within", "500", "--json").stdout)
    low, high = found["intervals"]["flights"][0]
    assert (high - low) / 2 <= 500
    assert found["receipt"]["guarantee"] == forecast["price"]


@pytest.mark.parametrize(
    ("asked", "counted"),
    [
        ((COUNTS, "--limit", "rows=5"), "≤ 5 rows of one unit, in all groups together"),
        (("SELECT SUM(delay) AS n FROM flights",), "≤ 100 rows, ≤ 1 group, ≤ 100 rows in a group, of one unit"),
        (("SELECT COUNT(DISTINCT tailnum) AS planes FROM flights",), ""),
    ],
)
def test_a_dry_run_says_that_rows_may_be_cut_from_the_policy_alone(
    policy: Path, asked: tuple[str, ...], counted: str
) -> None:
    said = run("query", policy, *asked, "--epsilon", "0.5", "--dry-run").stdout
    line = f"counted {counted}; ± covers the noise, not rows beyond these limits\n"
    assert (line in said) if counted else "counted" not in said
    as_json = json.loads(run("query", policy, *asked, "--epsilon", "0.5", "--dry-run", "--json").stdout)
    assert as_json.get("counted", "").startswith(counted)


def test_what_is_cut_is_priced_and_bought_instead_of_the_answer(policy: Path) -> None:
    asked = ("query", policy, "SELECT AVG(delay) AS late FROM flights", "--clipped", "--epsilon", "0.5")
    forecast = run(*asked, "--dry-run").stdout
    assert "more than 100 rows: share ±" in forecast
    assert "delay outside -30…180: share ±" in forecast
    assert spent(policy) == 0
    shown = run(*asked).stdout
    assert "units beyond" in shown
    assert "clamped cells" in shown
    assert spent(policy) == 0.5
    assert json.loads(run(*asked, "--json").stdout)["names"] == ["more than 100 rows", "delay outside -30…180"]
    assert spent(policy) == 0.5  # bought before
    for given, told in (
        (("--plot", "x.svg"), "leave out --plot with --clipped"),
        (("--free",), "leave out --free with --clipped"),
    ):
        refused = run(*asked, *given)
        assert (refused.exit_code, told in refused.output) == (2, True)
    listing = run("query", policy, "SHOW TABLES", "--clipped", "--epsilon", "1")
    assert "leave out --clipped" in listing.output
    nothing = run("query", policy, "SELECT COUNT(DISTINCT tailnum) AS n FROM flights", "--clipped", "--epsilon", "1")
    assert "no limit or bound removes data from this answer" in nothing.output
    assert spent(policy) == 0.5


def test_numbers_are_flagged_and_sampling_error_stands_beside_noise(policy: Path) -> None:
    asked = ("query", policy, COUNTS, "--epsilon", "0.5")
    shown = run(*asked, "--flag-above", "0.00001", "--sample-of", "0.1").stdout
    assert all("(sampling ± " in line and line.endswith(" *") for line in shown.splitlines()[2:5])
    assert "* too noisy to rely on: ± is more than 0.001 % of the number" in shown
    assert " *" not in run(*asked).stdout
    assert spent(policy) == 0.5  # it is the stored answer that is shown, in other ways
    for given, told in ((("--flag-above", "no"), "above"), (("--sample-of", "2"), "a share below 1")):
        refused = run("query", policy, COUNTS, "--epsilon", "0.4", *given)
        assert refused.exit_code == 2
        assert told in refused.stderr
    assert run("query", policy, "SHOW TABLES", "--flag-above", "0.5", "--sample-of", "0.1").exit_code == 0
    assert spent(policy) == 0.5


def test_a_dry_run_foresees_a_refusal(policy: Path) -> None:
    assert "would REFUSE it now" in run("query", policy, COUNTS, "--epsilon", "4", "--dry-run").stdout
    assert run("query", policy, COUNTS, "--epsilon", "4").exit_code == 3


def test_an_overspend_has_its_own_exit_code_and_costs_nothing(policy: Path) -> None:
    done = run("query", policy, COUNTS, "--epsilon", "4")
    assert done.exit_code == 3
    assert done.stdout == ""
    assert "it needs ε = 4, and ε = 3 of 3 is left for ordinary answers, which is 1 too little" in done.stderr
    assert spent(policy) == 0


def test_a_stored_answer_is_free_and_says_what_it_was_bought_for(policy: Path) -> None:
    first = json.loads(run("query", policy, COUNTS, "--epsilon", "0.5", "--json").stdout)
    again = json.loads(run("query", policy, COUNTS, "--epsilon", "0.1", "--json").stdout)
    assert again["rows"] == first["rows"]
    assert again["receipt"]["free"]
    assert again["receipt"]["guarantee"] == "ε = 0.5"
    assert again["receipt"]["hash"] == first["receipt"]["hash"]
    assert spent(policy) == 0.5
    fresh = json.loads(run("query", policy, COUNTS, "--epsilon", "0.5", "--fresh", "--json").stdout)
    assert not fresh["receipt"]["free"]
    assert spent(policy) == 1.0


def test_a_request_id_is_charged_once_and_names_one_question(policy: Path) -> None:
    asked = ("query", policy, COUNTS, "--epsilon", "0.5", "--request-id", "r1", "--json")
    assert run(*asked).stdout != ""
    assert json.loads(run(*asked).stdout)["receipt"]["free"]
    assert spent(policy) == 0.5
    other = run("query", policy, "SELECT COUNT(*) FROM flights", "--epsilon", "0.5", "--request-id", "r1")
    assert other.exit_code == 1
    assert "used for another" in other.stderr


def test_the_noise_may_be_named(policy: Path) -> None:
    asked = ("query", policy, COUNTS, "--rho", "0.01", "--fresh", "--json", "--mechanism")
    for name, law in (("laplace", "Laplace"), ("gaussian", "Gaussian")):
        assert json.loads(run(*asked, name).stdout)["receipt"]["mechanisms"][0].startswith(law)
    assert run("query", policy, COUNTS, "--epsilon", "1", "--mechanism", "gaussian").exit_code == 2
    assert run("query", policy, COUNTS, "--epsilon", "1", "--mechanism", "none").exit_code == 2


def test_an_analyst_spends_their_share_and_no_more(policy: Path) -> None:
    refused = run("query", policy, COUNTS, "--epsilon", "2", "--analyst", "ana")
    assert refused.exit_code == 3
    assert "the analyst's share" in refused.stderr
    assert "would REFUSE" in run("query", policy, COUNTS, "--epsilon", "2", "--analyst", "ana", "--dry-run").stdout
    assert run("query", policy, COUNTS, "--epsilon", "1.5", "--analyst", "ana").exit_code == 0
    assert run("query", policy, COUNTS, "--epsilon", "1.5", "--fresh").exit_code == 0
    assert run("query", policy, COUNTS, "--epsilon", "0.1", "--analyst", "bob").exit_code == 2


def test_another_ledger_may_be_named(policy: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "elsewhere.ledger"
    assert run("query", policy, COUNTS, "--epsilon", "0.5", "--ledger", ledger).exit_code == 0
    assert ledger.exists()
    assert not (policy.parent / "sfumato.ledger").exists()


def test_a_weak_promise_is_said_aloud_without_a_traceback(policy: Path) -> None:
    policy.write_text(policy.read_text().replace("epsilon = 3.0", "epsilon = 10"))
    done = run("query", policy, COUNTS, "--epsilon", "6")
    assert done.exit_code == 0
    assert done.stderr.startswith(f"{NOTED}warning: weak privacy: ε = 6 lets")
    assert ".py" not in done.stderr


# ── hostile arguments ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("price", "code"),
    [
        ([], 2),
        (["--epsilon", "0"], 2),
        (["--epsilon", "-1"], 2),
        (["--epsilon", "nan"], 2),
        (["--epsilon", "inf"], 2),
        (["--epsilon", "1e308"], 2),
        (["--epsilon", "1e6"], 3),
        (["--epsilon", "1e-12"], 2),
        (["--epsilon", "100"], 3),
        (["--epsilon", "1e-308"], 2),
        (["--epsilon", ""], 2),
        (["--epsilon", "1/0"], 2),
        (["--epsilon", "9" * 10_000], 2),
        (["--epsilon", "0.5", "--rho", "0.1"], 2),
        (["--epsilon", "0.5", "--within", "50"], 2),
        (["--epsilon", "0.5", "--delta", "2"], 2),
        (["--epsilon", "0.5", "--delta", "-1"], 2),
        (["--rho", "0.5", "--delta", "0.1"], 2),
        (["--rho", "0"], 2),
        (["--within", "0"], 2),
        (["--within", "=5"], 2),
        (["--within", "origin=5"], 2),
        (["--within", "5", "--within", "6"], 2),
        (["--epsilon", "0.5", "--confidence", "1"], 2),
        (["--epsilon", "0.5", "--time-limit", "-1"], 2),
        (["--epsilon", "0.5", "--request-id", ""], 2),
        (["--epsilon", "0.5", "--json", "--csv"], 2),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else str(value),
)
def test_hostile_prices_are_refused_for_free(policy: Path, price: list[str], code: int) -> None:
    done = run("query", policy, COUNTS, *price)
    assert done.exit_code == code, done.stderr
    assert done.stdout == ""
    assert done.stderr
    assert len(done.stderr) < 2000
    assert "Traceback" not in done.stderr
    assert spent(policy) == 0


@pytest.mark.parametrize(
    "sql",
    [
        "",
        " ",
        ";",
        "--",
        "SELECT",
        "SELECT 1; SELECT 2",
        "DROP TABLE flights",
        "SELECT * FROM flights",
        "SELECT COUNT(*) FROM nothing",
        "SELECT COUNT(*) FROM read_csv('/etc/passwd')",
        "x" * 1_000_000,
        "(" * 1000,
        "\udcff\udcfe",
    ],
    ids=range(13),
)
def test_hostile_questions_are_refused_for_free(policy: Path, sql: str) -> None:
    done = run("query", policy, "--epsilon", "0.5", "--", sql)
    assert done.exit_code == 1, done.stderr
    assert done.stdout == ""
    assert "place:" in done.stderr
    assert "fix:" in done.stderr
    assert len(done.stderr) < 3000
    assert spent(policy) == 0


@pytest.mark.parametrize("given", [b"", b"\xff\xfe\x00\x01", b"SELECT \x00", os.urandom(4096), b"x" * 2_000_000])
def test_hostile_stdin_is_refused(policy: Path, given: bytes) -> None:
    done = run("query", policy, "-", "--epsilon", "0.5", given=given)
    assert done.exit_code == 1
    assert "fix:" in done.stderr
    assert spent(policy) == 0


def test_policies_that_are_none(tmp_path: Path) -> None:
    noise = tmp_path / "noise.toml"
    noise.write_bytes(b"\xff\x00\xfe")
    for path in (tmp_path, tmp_path / "missing.toml", noise, Path("")):
        done = run("query", path, COUNTS, "--epsilon", "0.5")
        assert done.exit_code == 1, path
        assert "fix:" in done.stderr
    assert sorted(tmp_path.iterdir()) == [noise]


def test_a_missing_source_is_named(policy: Path) -> None:
    policy.with_name("flights.parquet").unlink()
    done = run("query", policy, COUNTS, "--epsilon", "0.5")
    assert done.exit_code == 1
    assert "tables.flights.source" in done.stderr


def test_ledgers_that_cannot_be_written(policy: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.ledger"
    text.write_text("this is no ledger " * 100)
    for path in (tmp_path, tmp_path / "no" / "folder.ledger", text):
        done = run("query", policy, COUNTS, "--epsilon", "0.5", "--ledger", path)
        assert done.exit_code == 5, (path, done.stderr)
        assert "fix:" in done.stderr
    assert text.read_text().startswith("this is no ledger")


@pytest.mark.parametrize("picture", [".", "out.pdf", "no/folder/out.svg", "out"])
def test_pictures_that_cannot_be_drawn_are_refused_before_the_charge(policy: Path, picture: str) -> None:
    done = run("query", policy, COUNTS, "--epsilon", "0.5", "--plot", policy.parent / picture)
    assert done.exit_code == 2
    assert "fix:" in done.stderr
    assert spent(policy) == 0


# ── as a process ───────────────────────────────────────────────────────────────────────────────


def _command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "sfumato", *map(str, arguments)]


def test_a_real_process_answers_in_any_encoding(policy: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run(
        _command("query", policy, COUNTS, "--epsilon", "0.5"), capture_output=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert b"EWR" in done.stdout
    assert done.stderr.decode() == NOTED


@pytest.mark.long
def test_a_closed_pipe_is_no_traceback(policy: Path) -> None:
    with subprocess.Popen(
        _command("query", policy, COUNTS, "--epsilon", "0.5"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()


def _slow() -> str:
    """A question that keeps the engine busy for a while: a search in every row, and not computed
    once for all rows with one value, as it would be for a text that the file holds in a dictionary.
    """
    return f"SELECT COUNT(*) AS n FROM flights WHERE CAST(delay AS TEXT) || '{'a' * 150}' LIKE '%{'_' * 90}b%'"


def test_a_time_limit_after_the_charge_is_charged_and_says_so(policy: Path) -> None:
    question = _slow()
    done = run("query", policy, question, "--epsilon", "0.5", "--time-limit", "0.5")
    assert done.exit_code == 4, (done.stdout, done.stderr)
    assert "charged, but it was stopped" in done.stderr
    assert spent(policy) == 0.5


def interrupt(process: BaseProcess, policy: Path) -> None:
    """Send Ctrl-C once the question is charged."""
    deadline = time.monotonic() + 120
    while spent(policy) == 0 and process.is_alive() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid or 0, signal.SIGINT)


def test_ctrl_c_while_reading_is_charged_and_says_so(policy: Path) -> None:
    question = _slow()
    done = run_forked(
        "query", policy, question, "--epsilon", "0.5", meanwhile=lambda process: interrupt(process, policy)
    )
    assert done.returncode == 4, (done.stdout, done.stderr)
    assert "charged, but it was stopped" in done.stderr
    assert done.stdout == ""
    with sf.Ledger.open(policy.parent / "sfumato.ledger") as ledger:
        assert [line.kind for line in ledger] == ["account-open", "source", "charge", "stopped"]


def _interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("shown", ["to_csv", "to_json"])
def test_ctrl_c_while_an_answer_is_shown_says_that_it_is_stored_and_free(
    policy: Path, monkeypatch: pytest.MonkeyPatch, shown: str
) -> None:
    asked = ("query", policy, COUNTS, "--epsilon", "0.5", "--" + shown.removeprefix("to_"))
    for _ in range(2):  # when it is bought, and when it is found again
        with monkeypatch.context() as patched:
            patched.setattr(sf.Answer, shown, _interrupted)
            done = run(*asked)
        assert done.exit_code == 130
        assert done.stdout == ""
        assert "the answer is stored, and free" in done.stderr
        assert spent(policy) == 0.5
    assert run(*asked).exit_code == 0
    assert spent(policy) == 0.5


def test_ctrl_c_before_the_charge_costs_nothing(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sf.Curator, "sql", _interrupted)
    done = run("query", policy, COUNTS, "--epsilon", "0.5")
    assert done.exit_code == 130
    assert "interrupted" in done.stderr
    assert "after its answer" not in done.stderr
    assert spent(policy) == 0


@pytest.mark.parametrize("refusal", [sf.AnswerPending(7), sf.Unanswered(7, charged=False)], ids=lambda each: each.code)
def test_who_only_waited_is_not_told_of_a_charge(
    policy: Path, monkeypatch: pytest.MonkeyPatch, refusal: sf.SfumatoError
) -> None:
    def waited(*_: object, **__: object) -> None:
        raise refusal

    monkeypatch.setattr(sf.Question, "release", waited)
    done = run("query", policy, COUNTS, "--epsilon", "0.5")
    assert done.exit_code == 75
    assert "this request was not charged" in done.stderr


def test_every_exit_code_is_documented_once() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "exit-codes.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")][1:]
    assert {int(code): words for code, words in rows} == EXIT_CODE_MEANINGS
    assert {each.exit_code for each in OUTCOMES.values()} <= set(EXIT_CODE_MEANINGS)
    for command in ("init", "check", "query", "budget", "history", "ledger", "auction", "degrees", "bounds", "limits"):
        told = " ".join(run(command, "--help").output.split())
        assert told.count("Exit codes: 0 done") == 1, command


def test_a_dry_run_without_a_price_tells_the_error_at_some(policy: Path) -> None:
    done = run("query", policy, COUNTS, "--dry-run")
    assert done.exit_code == 0, done.stderr
    at = [line.partition(":")[0] for line in done.stdout.splitlines()[:3]]
    assert at == ["at ε = 0.1", "at ε = 0.5", "at ε = 1"]
    assert "To ask, name a price" in done.stdout
    assert run("query", policy, COUNTS, "--dry-run", "--json").exit_code == 2  # a program names its price
    assert spent(policy) == 0


def test_what_does_not_go_together_is_told_in_flags(policy: Path) -> None:
    gaussian = run("query", policy, COUNTS, "--epsilon", "0.1", "--mechanism", "gaussian").stderr
    assert "Gaussian noise needs a δ" in gaussian
    assert "fix:   give a --delta, such as 1e-9, or --rho instead of --epsilon" in gaussian
    free = run("query", policy, COUNTS, "--free").stderr
    assert "leave out --free and give --epsilon or --within" in free
    assert (
        "would REFUSE it now: sfumato budget shows what is left"
        in run("query", policy, COUNTS, "--epsilon", "99", "--dry-run").stdout
    )


def test_joint_ranges_are_asked_for_with_a_flag(policy: Path, tmp_path: Path) -> None:
    """They are wider than each range by itself, in the forecast and in the answer, for one question and for a file."""
    questions = tmp_path / "questions.sql"
    questions.write_text(f"{COUNTS};\n")
    for source in ([COUNTS], ["--file", str(questions)]):
        widths = []
        for flags in ((), ("--joint",)):
            said = json.loads(
                run("query", str(policy), *source, "--epsilon", "0.1", *flags, "--dry-run", "--json").stdout
            )
            widths.append((said["forecasts"][0] if "forecasts" in said else said)["columns"]["flights"])
        assert widths[0] < widths[1]
    priced = run("query", str(policy), COUNTS, "--within", "900", "--joint")
    assert "± 900" in priced.stdout
