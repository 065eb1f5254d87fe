"""The shell: at a real pseudo-terminal, and from a pipe."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from cli.running import run, spent
from cli.terminal import CTRL_C, CTRL_D, ENTER, TAB, UP, Terminal
from sfumato.cli.shell.completion import is_complete, split_input
from sfumato.cli.shell.line_input import InputHistory, default_history_path
from sfumato.cli.shell.session import COMMANDS, ShellSession, ShellSettings
from sfumato.errors import SfumatoError

COUNT = "SELECT COUNT(*) AS n FROM flights"


def _shell(policy: Path, *arguments: str, **environment: str) -> Terminal:
    state = {"XDG_STATE_HOME": str(policy.parent / "state"), **environment}
    return Terminal("shell", policy, *arguments, environment=state)


def test_a_conversation_at_a_terminal(policy: Path) -> None:
    """Completion, several lines, price and error before a yes spends, the budget in the prompt, Ctrl-C and Ctrl-D."""
    with _shell(policy) as terminal:
        terminal.expect("flights ε 3 of 3>")
        terminal.type("\\eps" + TAB + " 0.5" + ENTER)
        terminal.expect("ε = 0.5\n")
        terminal.expect("of 3>")
        terminal.type("SELECT ori" + TAB + ", COUNT(*) AS n" + ENTER)
        terminal.expect("...>")
        terminal.type("FROM fli" + TAB + " GROUP BY ori" + TAB + ";" + ENTER)
        terminal.expect("price   ε = 0.5; the account would accept it now")
        terminal.expect("error   n ±600")
        terminal.expect("Spend ε = 0.5? [y/N]")
        terminal.type(ENTER)
        terminal.expect("Nothing was spent.")
        terminal.expect("flights ε 3 of 3>")
        assert spent(policy) == 0
        terminal.type("this line is never asked" + CTRL_C)
        terminal.expect("Line cancelled")
        terminal.expect("flights ε 3 of 3>")
        terminal.type("\\ask" + ENTER)
        terminal.expect("[y/N]")
        terminal.type("y" + ENTER)
        assert "JFK" in terminal.expect("this answer")
        terminal.expect("flights ε 2.5 of 3>")
        assert spent(policy) == 0.5
        terminal.type(CTRL_D)
        assert terminal.ends() == 0
    assert "is not valid SQL" not in terminal.shown


def test_the_conversation_of_the_page(policy: Path) -> None:
    page = Path(__file__).parents[3] / "docs/how-to/use-the-shell.md"
    (shown,) = re.findall(r"```console\n(.*?)```", page.read_text(), re.S)
    typed = re.findall(r"^(.*?(?:> |\[y/N\] ))(.*)$", shown, re.M)
    with _shell(policy, TERM="dumb") as terminal:
        for prompt, text in typed:
            terminal.expect(prompt.strip())
            terminal.type(f"{text}\n")
        terminal.expect("LGA")
        terminal.expect("protects")
        terminal.expect("flights ε 2.5 of 3>")
        terminal.type(CTRL_D)
        assert terminal.ends() == 0
    said = terminal.shown[terminal.shown.index("flights ε") : terminal.shown.index("protects")]
    assert _steady(said) == _steady(shown)


def _steady(text: str) -> list[str]:
    """Without noisy numbers, and the room that they take."""
    text = re.sub(r"[\d,]+ ± \d+", "N ± N", text)
    return [" ".join(line.split()) for line in re.sub("─+", "─", text).strip().splitlines()]


def test_every_command_is_on_the_page() -> None:
    page = (Path(__file__).parents[3] / "docs/how-to/use-the-shell.md").read_text()
    assert [name for name in COMMANDS if f"`\\{name}" not in page] == []


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_commands_work_within_a_question(policy: Path, term: str) -> None:
    """Help and lists leave the question as it is, and it can be finished, dropped or left."""
    end = ENTER if term == "xterm" else "\n"
    with _shell(policy, "--epsilon", "0.5", TERM=term) as terminal:
        terminal.expect("of 3>")
        terminal.type("SELECT COUNT(*) AS n" + end)
        terminal.expect("...>")
        terminal.type(".tables" + end)
        terminal.expect("protects nobody")
        terminal.expect("...>" if term == "dumb" else "SELECT COUNT(*) AS n")
        terminal.type("FROM flights;" + end)
        terminal.expect("Spend ε = 0.5? [y/N]")
        terminal.type("n" + end)
        terminal.expect("Nothing was spent.")
        terminal.expect("of 3>")
        terminal.type("SELECT 'a quote that is not closed" + end)
        terminal.expect("...>")
        terminal.type("\\reset" + end)
        terminal.expect("of 3>")
        terminal.type("SELECT 'again" + end)
        terminal.expect("...>")
        terminal.type(".quit" + end)
        assert terminal.ends() == 0
    assert "is not valid SQL" not in terminal.shown
    assert spent(policy) == 0


def test_a_trapped_word_is_told_the_way_out(policy: Path) -> None:
    with _shell(policy, "--epsilon", "0.5", TERM="dumb") as terminal:
        terminal.expect("of 3>")
        terminal.type("SELECT COUNT(*)\n")
        terminal.expect("...>")
        terminal.type("quit\n")
        terminal.expect("\\q quits, \\reset discards it, ; ends it.")
        terminal.expect("...>")
        terminal.type("\\q\n")
        assert terminal.ends() == 0


def test_a_ctrl_c_at_the_price_spends_nothing(policy: Path) -> None:
    with _shell(policy, "--epsilon", "0.5", "--no-history") as terminal:
        terminal.expect("of 3>")
        terminal.type(f"{COUNT};{ENTER}")
        terminal.expect("[y/N]")
        terminal.type(CTRL_C)
        terminal.expect("Nothing was spent.")
        terminal.expect("flights ε 3 of 3>")
        terminal.type(f"{COUNT};{ENTER}")
        terminal.expect("[y/N]")
        terminal.type(CTRL_D)
        terminal.expect("Nothing was spent.")
        terminal.expect("flights ε 3 of 3>")
        terminal.type("SELEC 1;" + ENTER)
        terminal.expect("did you mean SELECT instead of")
        terminal.expect("of 3>")
        terminal.type("quit" + ENTER)
        assert terminal.ends() == 0
    assert spent(policy) == 0
    assert not (policy.parent / "state").exists()


def test_a_pasted_answer_to_the_price_is_part_of_the_text(policy: Path) -> None:
    """What is pasted with a yes below a question is one text: the yes is never taken for an answer."""
    with _shell(policy, "--epsilon", "0.5") as terminal:
        terminal.expect("of 3>")
        terminal.type(f"\x1b[200~{COUNT};\ny\n\x1b[201~")
        terminal.type(CTRL_C)
        terminal.expect("Line cancelled")
        terminal.expect("of 3>")
        terminal.type(CTRL_D)
        assert terminal.ends() == 0
    assert spent(policy) == 0


def test_typed_lines_are_kept_for_their_owner_alone(policy: Path) -> None:
    kept = policy.parent / "state" / "sfumato" / "shell-history"
    before = os.umask(0)
    try:
        with _shell(policy, "--epsilon", "0.5") as terminal:
            terminal.expect("of 3>")
            terminal.type("SHOW TABLES;" + ENTER)
            terminal.expect("airlines")
            terminal.expect("of 3>")
            terminal.type(CTRL_D)
            assert terminal.ends() == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    with _shell(policy, "--epsilon", "0.5") as terminal:
        terminal.expect("of 3>")
        terminal.type(UP)
        terminal.expect("SHOW TABLES;")
        terminal.type(ENTER)
        terminal.expect("protects nobody")
        terminal.expect("of 3>")
        terminal.type(CTRL_D)
        assert terminal.ends() == 0
    assert InputHistory(kept).texts == ["SHOW TABLES;"]


def test_a_terminal_without_an_editor_is_served_too(policy: Path) -> None:
    with _shell(policy, "--epsilon", "0.5", TERM="dumb") as terminal:
        terminal.expect("pip install 'sfumato[shell]'")
        terminal.expect("of 3>")
        terminal.type("SELECT COUNT(*) AS n\n")
        terminal.expect("...>")
        terminal.type("FROM flights;\n")
        terminal.expect("[y/N]")
        terminal.type("y\n")
        terminal.expect("this answer")
        terminal.expect("flights ε 2.5 of 3>")
        terminal.type(CTRL_C)
        terminal.expect("Line cancelled")
        terminal.expect("of 3>")
        terminal.type(CTRL_D)
        assert terminal.ends() == 0
    assert spent(policy) == 0.5


def test_a_pipe_is_told_prices_and_spends_nothing(policy: Path) -> None:
    done = run("shell", policy, "--epsilon", "0.5", given=f"{COUNT};\ny\n\n")
    assert "price   ε = 0.5" in done.output
    assert "Nothing was spent: add --yes to buy the answer." in done.output
    assert spent(policy) == 0


def test_a_pipe_with_yes_asks_all(policy: Path) -> None:
    given = f"SHOW TABLES; -- first\n\\epsilon 0.5\nSELECT COUNT(*) AS n\n FROM flights;\\within 1000\n{COUNT}\n"
    done = run("shell", policy, "--yes", given=given)
    assert done.exit_code == 0
    assert "airlines" in done.output
    assert done.output.count("this answer") == 2
    assert "bought before" in done.output  # what 1000 asks for was bought with ε = 0.5
    assert spent(policy) == 0.5


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (f"{COUNT};", 1, "every question needs a price"),
        (f"\\epsilon 9\n{COUNT};", 3, "cannot afford"),
        ("\\epsilon no", 2, "epsilon must be"),
        ("\\limit rows=x", 2, "\\limit rows=5"),
        ("\\within", 2, "\\within 50"),
        ("\\plot", 1, "no answer to plot"),
        ("\\ask", 1, "no question yet"),
        ("\\explain", 1, "no question yet"),
        ("\\history x", 2, "\\history 50"),
        ("\\descrobe", 1, "did you mean \\describe?"),
        ("\\describe fligths", 1, "did you mean flights?"),
        ("SELECT COUNT(*) FROM fligths;", 1, "did you mean flights?"),
        ("SELECT 'open", 1, "not-sql"),
    ],
)
def test_the_first_refusal_ends_a_pipe(policy: Path, given: str, code: int, said: str) -> None:
    done = run("shell", policy, "--yes", given=f"{given}\n\\epsilon 1\n{COUNT};")
    assert (done.exit_code, said in done.output) == (code, True), done.output
    assert spent(policy) == 0


def test_commands_say_what_they_do(policy: Path, tmp_path: Path) -> None:
    picture = tmp_path / "late.svg"
    given = [
        "\\help",
        "\\describe airlines",
        "\\epsilon 0.5 1e-9",
        "\\delta 0",
        "\\limit rows=50",
        f"\\explain {COUNT};",
        "\\ask",
        "\\limit off",
        "\\plot",
        f"\\plot {picture}",
        "\\history 2",
        "exit",
        "SELECT never",
    ]
    done = run("shell", policy, "--yes", given="\n".join(given))
    assert done.exit_code == 0, done.output
    for name in COMMANDS:
        assert f"  \\{name} " in done.output
    assert "airlines: public" in done.output
    assert "ε = 0.5, δ = 1e-9" in done.output
    assert "\\limit rows=10 gives" in done.output
    assert ".limit(" not in done.output
    assert "50 rows" in done.output
    assert picture.read_text().startswith("<svg")
    assert "answer to" in done.output


def test_commands_of_other_shells_are_understood(policy: Path) -> None:
    done = run("shell", policy, given="\\?\n\\d airlines\n\\budget\n\\q\nSELECT never;\n")
    assert done.exit_code == 0, done.output
    for said in ("  \\quit ", "airlines: public", "budget left for ordinary answers: ε = 3 of 3"):
        assert said in done.output


def test_dot_commands_are_understood(policy: Path) -> None:
    done = run("shell", policy, given=".help\n.tables\n.schema airlines\nSUMMARIZE flights;\n.quit\nSELECT never;\n")
    assert done.exit_code == 0, done.output
    for said in ("  \\quit ", "protects nobody", "airlines: public", "QUANTILE_CONT(delay, [0.25, 0.5, 0.75])"):
        assert said in done.output
    unknown = run("shell", policy, given=".tabels\n")
    assert (unknown.exit_code, "did you mean \\tables?" in unknown.output) == (1, True)


def test_a_command_within_a_piped_question_does_not_end_it(policy: Path) -> None:
    given = "SELECT COUNT(*) AS n\n\\epsilon 0.5\nFROM flights"
    done = run("shell", policy, "--yes", given=given)
    assert done.exit_code == 0, done.output
    assert spent(policy) == 0.5


def test_a_picture_is_not_drawn_over_the_policy(policy: Path) -> None:
    done = run("shell", policy, "--yes", "--epsilon", "0.5", given=f"{COUNT};\n\\plot {policy}\n")
    assert "is the policy" in done.output
    assert policy.read_text().startswith("#")


def test_an_analyst_sees_the_share(policy: Path) -> None:
    with sf.open(policy) as flights:
        own = flights.as_analyst("ana")
        assert ShellSession(own, _Nobody(), None, False, True).prompt == "flights ε 1.5 of 1.5> "


class _Nobody:
    def read(self, _prompt: str, _unfinished: str = "") -> str:
        raise EOFError

    def confirm(self, _words: str) -> bool:
        return True


class _Unwilling(_Nobody):
    def __init__(self, raises: type[BaseException] | None) -> None:
        self._raises = raises

    def confirm(self, _words: str) -> bool:
        if self._raises is not None:
            raise self._raises
        return False


@pytest.mark.parametrize("raises", [None, EOFError, KeyboardInterrupt])
def test_only_a_yes_spends(
    policy: Path, raises: type[BaseException] | None, capsys: pytest.CaptureFixture[str]
) -> None:
    with sf.open(policy) as flights:
        ShellSession(flights, _Unwilling(raises), None, False, True, ShellSettings(epsilon="0.5")).run(COUNT)
    assert capsys.readouterr().out.endswith("Nothing was spent.\n")
    assert spent(policy) == 0


def test_an_interruption_says_whether_the_answer_is_stored(
    policy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from sfumato.cli.shell import session as shell_session

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(shell_session, "print_table", interrupted)
    with sf.open(policy) as flights:
        session = ShellSession(flights, _Nobody(), None, False, True, ShellSettings(epsilon="0.5"))
        session.run(COUNT)
        assert "interrupted after its answer was stored" in capsys.readouterr().err
        monkeypatch.undo()
        session.run("\\ask")
        assert "bought before: it is free" in capsys.readouterr().out
    assert spent(policy) == 0.5


def test_what_the_account_refuses_is_not_asked_for(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with sf.open(policy) as flights:
        ShellSession(flights, _Nobody(), None, False, True, ShellSettings(epsilon="4")).run(COUNT)
    assert "would REFUSE it now\n" in (out := capsys.readouterr().out)
    assert "Nothing was spent" in out


@pytest.mark.parametrize(
    ("text", "found", "rest"),
    [
        ("", [], ""),
        ("  ;; \n", [], ""),
        ("-- a remark", [], ""),
        ("a; b", ["a"], "b"),
        ("SELECT ';'; x;", ["SELECT ';'", "x"], ""),
        ("SELECT 'it''s; open", [], "SELECT 'it''s; open"),
        ("/* a; b */ c;", ["/* a; b */ c"], ""),
        ("/* a;", [], "/* a;"),
        ('SELECT "a;b";', ['SELECT "a;b"'], ""),
        ("\\limit rows=5; \nquit", ["\\limit rows=5", "\\quit"], ""),
        ("HELP;", ["\\help"], ""),
        ("SELECT 1 -- it's\n;", ["SELECT 1 -- it's"], ""),
        ("SELECT a\n\\d t\nFROM t", ["\\d t"], "SELECT a\nFROM t"),
        ("SELECT a\n.tables;\nFROM t;", ["\\tables", "SELECT a\nFROM t"], ""),
        (".tables\n.mode csv", ["\\tables", "\\mode csv"], ""),
        ("SELECT t\n.help_desk\n.5", [], "SELECT t\n.help_desk\n.5"),  # a column and a number begin with a dot too
        ("SELECT\nquit\nFROM t", [], "SELECT\nquit\nFROM t"),  # as may a column be called
        ("SELECT 'a\n\\help\n", [], "SELECT 'a\n\\help\n"),  # a quoted text may begin with a backslash
        ("SELECT 'a\n\\q\n", ["\\q"], "SELECT 'a\n"),
        ("/* a\n.quit", ["\\quit"], "/* a\n"),
        ("SELECT '\n\\help\n';", ["SELECT '\n\\help\n'"], ""),
    ],
)
def test_texts_are_cut_into_pieces(text: str, found: list[str], rest: str) -> None:
    assert split_input(text) == (found, rest)


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT 1\n\\help\n", True),
        ("SELECT 1\n.quit", True),
        ("SELECT 1\n\\help\nFROM", False),
        ("SELECT 'a\n\\help\n", False),
        ("SELECT 1\nquit\n", False),
    ],
)
def test_a_command_is_run_at_once(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


def test_a_price_takes_the_place_of_an_accuracy() -> None:
    settings = ShellSettings().with_within("n=5 total=7").with_limit("rows=3").with_limit("groups=2")
    assert str(settings) == "within n=5 total=7; limit rows=3 groups=2"
    assert settings.with_epsilon("1").within is None
    assert settings.with_epsilon("1").with_within("2").price == {"epsilon": None, "delta": "0", "within": "2"}
    for given in ("", "0", "-1", "1 2 3", "1 x", "nan"):
        with pytest.raises(SfumatoError):
            settings.with_epsilon(given)


class TestTypedHistory:
    def test_a_file_that_others_could_read_is_closed_to_them(self, tmp_path: Path) -> None:
        path = tmp_path / "typed"
        path.write_text('"SELECT 1;"\n')
        path.chmod(0o644)
        history = InputHistory(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        history.append("SELECT\n2;")
        history.append("SELECT\n2;")
        history.append("  ")
        assert InputHistory(path).texts == ["SELECT 1;", "SELECT\n2;"]

    def test_damaged_lines_are_left_out(self, tmp_path: Path) -> None:
        path = tmp_path / "typed"
        path.write_bytes(b'cut short"\n{"a": 1}\n\xff\xfe\n"SELECT 1;"\n')
        assert InputHistory(path).texts == ["SELECT 1;"]

    @pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
    def test_what_is_no_file_is_refused(self, tmp_path: Path, kind: str) -> None:
        path = tmp_path / "typed"
        if kind == "link":
            (tmp_path / "other").touch(0o644)
            path.symlink_to(tmp_path / "other")
        elif kind == "folder":
            path.mkdir()
        else:
            os.mkfifo(path)
        with pytest.raises(SfumatoError, match="--no-history"):
            InputHistory(path)

    def test_it_stays_where_programs_keep_their_state(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_STATE_HOME", "/state")
        assert default_history_path() == Path("/state/sfumato/shell-history")
        monkeypatch.delenv("XDG_STATE_HOME")
        monkeypatch.setenv("HOME", "/home/ana")
        assert default_history_path() == Path("/home/ana/.local/state/sfumato/shell-history")
