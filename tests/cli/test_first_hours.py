"""What newcomers stumbled over: each sentence a command prints is true, and its fix leads on."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path

import click
import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
from cli.running import COUNTS, run, spent
from sfumato import extras


def test_a_dry_run_says_that_a_stored_answer_is_as_good_and_free(policy: Path) -> None:
    dry = ("query", policy, COUNTS, "--epsilon", "0.5", "--dry-run")
    assert "bought before" not in run(*dry).stdout
    assert run("query", policy, COUNTS, "--epsilon", "3").exit_code == 0
    found = run(*dry)
    assert "bought before: it is free" in found.stdout
    assert "REFUSE" not in found.stdout
    assert json.loads(run(*dry, "--json").stdout)["stored"] is True
    assert "would REFUSE it now" in run(*dry, "--fresh").stdout
    assert "stored" not in json.loads(run(*dry, "--fresh", "--json").stdout)
    assert spent(policy) == 3


def test_no_crumb_of_a_budget_is_proposed(policy: Path) -> None:
    assert run("query", policy, COUNTS, "--epsilon", "2.9999999999999").exit_code == 0
    done = run("query", policy, COUNTS, "--epsilon", "1", "--fresh")
    assert done.exit_code == 3
    assert "what is left, ε = 1e-13, is too little for a useful answer" in done.stderr
    assert "for an ordinary answer, choose" not in done.stderr


def test_what_is_proposed_after_a_refusal_is_accepted(policy: Path) -> None:
    assert run("query", policy, COUNTS, "--epsilon", "2.75").exit_code == 0
    done = run("query", policy, COUNTS, "--epsilon", "1", "--fresh")
    proposed = done.stderr.rsplit("ε = ", 1)[1].strip()
    assert run("query", policy, COUNTS, "--epsilon", proposed, "--fresh").exit_code == 0


def test_an_analysts_receipt_shows_what_is_left_of_their_share(policy: Path) -> None:
    found = run("query", policy, COUNTS, "--epsilon", "1", "--analyst", "ana").stdout
    assert "left of the share of ana for ordinary answers: ε = 0.5 of 1.5" in found
    owner = run("query", policy, COUNTS, "--epsilon", "1").stdout
    assert "left for ordinary answers: ε = 2 of 3" in owner


def test_a_share_never_shows_more_than_the_account_has(policy: Path) -> None:
    assert run("query", policy, COUNTS, "--epsilon", "2.75").exit_code == 0
    found = run("query", policy, COUNTS, "--epsilon", "0.125", "--analyst", "ana", "--fresh").stdout
    assert "left of the share of ana for ordinary answers: ε = 0.125 of 1.5" in found


def test_noise_that_is_pure_is_not_labelled_with_a_delta(policy: Path) -> None:
    asked = ("query", policy, COUNTS, "--epsilon", "0.5", "--delta", "0.001", "--json")
    done = run(*asked)
    found = json.loads(done.stdout)["receipt"]
    assert found["mechanisms"][0].startswith("Laplace")
    assert found["guarantee"] == "ε = 0.5"
    (told,) = (line for line in done.stderr.splitlines() if "δ" in line)
    assert told.startswith("warning: δ = 0.001 has no effect here: the answer has Laplace noise, which needs no δ")
    gaussian = json.loads(run(*asked[:5], "--delta", "1e-7", "--mechanism", "gaussian", "--fresh", "--json").stdout)
    assert gaussian["receipt"]["guarantee"] == "ε = 0.5, δ = 1e-07"


def test_a_closed_currency_is_explained(policy: Path) -> None:
    assert "closed" not in run("budget", policy).stdout
    assert run("query", policy, COUNTS, "--rho", "0.01", "--mechanism", "gaussian").exit_code == 0
    assert "since Gaussian noise was used" in run("budget", policy).stdout
    found = run("budget", policy, "--details").stdout
    assert "closed" in found
    assert "A release must fit into what is left of pure or renyi" in found
    assert "pure is closed" in found


def test_a_missing_extra_is_installed_with_this_environments_own_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    with sf.open(sf.example()) as flights:
        answer = flights.sql("SELECT COUNT(*) AS n FROM flights").release(epsilon=1)
    for module, draw in (("altair", answer.to_altair), ("pandas", answer.to_pandas), ("polars", answer.to_polars)):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(sf.SfumatoError) as refusal:
            draw()
        extra = "plot" if module == "altair" else module
        install = f"run {sys.executable} -m pip install 'sfumato[{extra}]'"
        assert refusal.value.fix == f"{install} (or 'sfumato[all]' for every extra)"


@pytest.mark.parametrize(
    ("file", "written", "command"),
    [
        ("uv-receipt.toml", "", "run uv tool install --force 'sfumato[spark]' "),
        ("pipx_metadata.json", "", "run pipx install --force 'sfumato[spark]' "),
        ("pyvenv.cfg", "home = /usr\nuv = 0.9\n", f"run uv pip install --python {sys.executable} 'sfumato[spark]' "),
        ("pyvenv.cfg", "home = /usr\n", f"run {sys.executable} -m ensurepip && {sys.executable} -m pip install "),
    ],
)
def test_an_environment_without_pip_names_its_own_installer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, written: str, command: str
) -> None:
    (tmp_path / file).write_text(written)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    assert extras.install_command("spark").startswith(command)


def test_one_extra_has_all_that_a_user_can_need() -> None:
    """Every extra but those for developers is in sfumato[all], and every missing extra that is named exists."""
    root = Path(__file__).parents[2]
    declared = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (everything,) = declared["all"]
    included = everything.removeprefix("sfumato[").removesuffix("]").split(",")
    assert set(included) == declared.keys() - {"all", "docs", "test"}
    sources = [path.read_text() for path in (root / "src").rglob("*.py")]
    named = {extra for source in sources for extra in re.findall(r"install_command\([\"'](\w+)[\"']\)", source)}
    assert len(named) >= 6
    assert named <= set(included)
    assert not [source for source in sources if '"pip install' in source]  # every one is for this environment


def test_an_interview_that_ends_early_says_that_nothing_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "visits.csv").write_text("a,b\n1,2\n")
    asked = ("init", tmp_path / "visits.csv", "-o", tmp_path / "policy.toml")

    def interrupted(*_: object, **__: object) -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise click.Abort from None

    for given, code in (("visit\n", 1), (None, 130)):
        if given is None:
            monkeypatch.setattr(click, "prompt", interrupted)
        done = run(*asked, given=given)
        assert done.exit_code == code
        assert "Aborted" not in done.output
        assert "no policy was written" in done.stderr
    assert not (tmp_path / "policy.toml").exists()


def test_check_says_in_words_what_is_declared(policy: Path) -> None:
    found = run("check", policy, "--public").stdout
    assert "Domain(" not in found
    assert "delay                integer from -30 to 180" in found
    assert "day                  date from 2013-06-01 to 2013-08-31" in found
    assert "origin               text: EWR, JFK, LGA" in found
    assert all(len(line) <= 120 for line in found.replace(str(policy), "").splitlines())


def test_check_in_public_does_not_send_to_itself(tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text('who,minutes\n1,"2\n3,4\n')
    (tmp_path / "policy.toml").write_text(
        '[unit]\nname = "visitor"\nbudget = { epsilon = 1 }\n[tables.visits]\nsource = "visits.csv"\nid = "row"\n'
        '[tables.visits.columns]\nminutes = { type = "integer", bounds = [0, 60] }\n'
    )
    done = run("check", tmp_path / "policy.toml", "--public")
    assert done.exit_code == 1
    assert "without --public" in done.stderr


def test_a_column_that_is_not_there_is_refused_with_the_nearest(policy: Path) -> None:
    with sf.open(policy) as flights:
        answer = flights.sql("SELECT COUNT(*) AS flights, COUNT(delay) AS flown FROM flights").release(epsilon=1)
    with pytest.raises(sf.InvalidParameter, match="flights, flown") as refusal:
        answer.column("flight")
    assert refusal.value.fix == "did you mean flights?"


def test_accuracy_first_of_a_mean_says_what_to_ask_instead(policy: Path) -> None:
    done = run("query", policy, "SELECT AVG(delay) AS late FROM flights", "--within", "late=3")
    assert done.exit_code == 2
    assert "half-width" in done.stderr
    for part in ("COUNT(*)", "SUM", "--epsilon", "--dry-run"):
        assert part in done.stderr.partition("fix:")[2], part


def test_a_printed_half_width_is_never_above_the_forecast(tmp_path: Path) -> None:
    """Weighted counts are no whole numbers, and are shown as the nearest: the half more was in no forecast."""
    held = pa.table({"who": [k // 7 for k in range(700)], "day": [k % 7 for k in range(700)]})
    columns = {"day": sf.Domain("integer", values=tuple(range(7)))}
    table = sf.Table("visits", held, columns, id="who", max_rows=7, max_groups=7)
    policy = sf.Policy(sf.PrivacyUnit("visitor"), sf.Budget(50), {"visits": table})
    with sf.Curator(policy, tmp_path / "weighted.ledger") as visits:
        ask = visits.sql("SELECT day, COUNT(*) AS n FROM visits GROUP BY day").limit(rows=5, strategy="reweight")
        forecast = ask.error(epsilon=5)["n"]
        answer = ask.release(epsilon=5)
        for (low, high), value in zip(answer.intervals["n"], answer.column("n"), strict=True):  # type: ignore[misc]
            assert max(value - low, high - value) <= forecast  # type: ignore[operator]
        assert forecast <= (answer.intervals["n"][0][1] - answer.intervals["n"][0][0]) / 2 + 0.5  # type: ignore[index]


def test_a_table_is_warned_of_once(policy: Path) -> None:
    both = "SELECT origin, carrier, COUNT(*) AS n FROM flights GROUP BY origin, carrier"
    done = run("query", policy, both, "--epsilon", "1")
    assert done.stderr.count("warning") == 1
    assert "Rows with an undeclared value of origin or carrier are in no group." in done.stderr


def test_what_is_known_of_found_groups_once_they_are_found_is_told(policy: Path) -> None:
    text = policy.read_text()
    line = next(each for each in text.splitlines() if each.startswith("carrier"))
    policy.write_text(text.replace(line, 'carrier = { type = "text" }'))
    asked = ("query", policy, "SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier", "--delta", "1e-8")
    tried = run(*asked, "--dry-run").output  # each of three prices has its own size, and all are told
    sizes = re.findall(
        r"^  A group of fewer than ([\d,]+) units .* --limit groups=1, which nearly always shows groups of",
        tried,
        re.MULTILINE,
    )
    assert len({int(each.replace(",", "")) for each in sizes}) == 3
    assert tried.count("warning") == 0
    done = run(*asked, "--epsilon", "2", "--csv")
    assert done.stderr.count("warning: Groups are found in the data, and small ones may be missing: a group of ") == 1
    nothing = run(*asked, "--epsilon", "0.01", "--fresh")
    assert "warning: No group has enough units to be shown." in nothing.stderr


def test_an_answer_says_that_its_ranges_leave_out_rows_beyond_the_limits(policy: Path) -> None:
    done = run("query", policy, COUNTS, "--epsilon", "0.5")
    phrases = "rows beyond the limit of 100 per plane count less or not at all; rows without tailnum are left out"
    line = f"flights: {phrases}; ± does not cover these effects\n"
    assert line in done.output
    assert "counted" not in done.output  # once is enough


def test_a_median_whose_rank_alone_is_known_is_drawn_without_a_range(policy: Path, tmp_path: Path) -> None:
    question = "SELECT origin, MEDIAN(delay) AS m FROM flights GROUP BY origin"
    with sf.open(policy) as flights:
        answer = flights.sql(question).release(epsilon="0.5")
    assert answer.chart_data("m").intervals == (None, None, None)
    answer.plot(tmp_path / "m.svg")
    drawn = (tmp_path / "m.svg").read_text()
    assert "rows of its rank" in drawn
    assert "or of unknown width" in drawn or "hollow" not in drawn


def test_a_synopsis_that_is_not_there_is_refused_in_these_words(tmp_path: Path) -> None:
    done = run("ask", tmp_path / "none.sfu", "SELECT COUNT(*) AS n FROM people")
    assert done.exit_code == 1
    assert "there is no such .sfu file" in done.stderr


def test_ways_of_no_column_with_cells_are_refused_in_these_words(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("who,age\n1,17\n")
    (tmp_path / "p.toml").write_text(
        '[unit]\nname = "person"\nbudget = { epsilon = 3 }\n[tables.people]\nsource = "people.csv"\nid = "who"\n'
        'max_rows = 2\n[tables.people.columns]\nage = { type = "integer", bounds = [0, 110] }\n'
    )
    done = run("publish", tmp_path / "p.toml", "people", "--ways", "2", "--epsilon", "1", "--dry-run")
    assert "no column of this table has listed values or bins" in done.stderr


IN_A_DATABASE = """
[unit]
name = "person"
budget = { epsilon = 3 }

[tables.people]
source = "shop.duckdb"
relation = "people"
id = "row"
columns = { sex = { values = ["f", "m"] }, age = { type = "integer", bounds = [0, 99] } }

[tables.visits]
source = "shop.duckdb"
relation = "by year.2024"
id = "row"
columns = { age = { type = "integer", bounds = [0, 99] } }
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A policy over two tables of one DuckDB file."""
    with duckdb.connect(tmp_path / "shop.duckdb") as database:
        database.execute("CREATE TABLE people AS SELECT 'f' AS sex, 30 AS age FROM range(40)")
        database.execute('CREATE SCHEMA "by year"')
        database.execute('CREATE TABLE "by year"."2024" AS SELECT 30 AS age FROM range(40)')
    (tmp_path / "shop.toml").write_text(IN_A_DATABASE)
    return tmp_path / "shop.toml"


def test_dummies_of_a_database_are_a_database_under_the_same_policy(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were Parquet files that no policy named, though the help said to ask the policy beside them."""
    monkeypatch.chdir(tmp_path)
    done = run("dummy", shop, "--rows", "50")
    assert done.exit_code == 0, done.output
    for question in ("SELECT sex, COUNT(*) AS n FROM people GROUP BY sex", "SELECT COUNT(*) AS n FROM visits"):
        found = run("query", "dummy/shop.toml", question, "--epsilon", "1")
        assert found.exit_code == 0, found.output
    assert spent(shop) == 0
    assert spent(Path("dummy/shop.toml")) == 2


def test_dummies_go_into_a_folder_and_not_into_a_file(shop: Path, tmp_path: Path) -> None:
    refused = run("dummy", shop, "-o", tmp_path / "dummy.csv")
    assert refused.exit_code == 2
    assert f"-o {tmp_path / 'dummy'}" in refused.stderr
    assert not (tmp_path / "dummy.csv").exists()


def test_a_table_whose_rows_are_units_has_no_ids_to_lack(shop: Path) -> None:
    told = run("check", shop).stdout
    assert "people: 40 rows, each row is one unit" in told
    assert "no id" not in told


def test_every_column_without_cells_is_named_at_once(tmp_path: Path) -> None:
    """Five were, and after those were mended the next five."""
    columns = {f"c{place}": sf.Domain("text", max_length=5) for place in range(22)}
    rows = pa.table({name: ["x", "y"] for name in columns})
    policy = sf.Policy(
        sf.PrivacyUnit("person", every_row=True), sf.Budget(1), {"people": sf.Table("people", rows, columns, id="row")}
    )
    with sf.Curator(policy, tmp_path / "a.ledger") as people, pytest.raises(sf.Unsupported) as refused:
        people.synthesize("people")
    assert "'c18', 'c19' and 2 more of 'people' cannot be counted by values or bins" in refused.value.rule
    assert refused.value.fix.count('values = ["a", "b"]') == 20
