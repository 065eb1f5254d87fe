"""The ``sfumato`` command line: a thin layer over the library, with no logic of its own."""

from __future__ import annotations

import difflib
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sfumato import __version__
from sfumato.cli.common.exit_codes import EXIT_CODES_HELP, exit_on_refusal, guard_streams
from sfumato.cli.common.options import DETAILS_KEY

if TYPE_CHECKING:
    from sfumato.curator.release_kinds import ReleaseKind

SHORT_HELP = {
    "demo": "Take a guided tour: a few seconds, no set-up.",
    "docs": "Find and print a page of the documentation.",
    "init": "Draft a policy by answering questions.",
    "forget": "Remove the copies that init made of private tables.",
    "dummy": "Write invented tables to test code on, for free.",
    "check": "Validate a policy and its data (for the owner).",
    "audit": "Test a policy's privacy guarantee on invented tables.",
    "describe": "Describe what can be asked.",
    "query": "Ask a question in SQL, or a file of questions.",
    "shell": "Ask questions at a prompt.",
    "publish": "Measure marginals once; ask them freely afterwards.",
    "synthesize": "Buy a model of a table, and draw synthetic rows.",
    "sample": "Draw synthetic rows from a model, for free.",
    "ask": "Query a published synopsis or model in SQL, for free.",
    "synopsis": "Show, verify or tabulate a published synopsis.",
    "online": "Ask many SQL questions for one price.",
    "quality": "Compare a synthetic table with the real one (for the owner).",
    "attack": "Run an attack by name, or all attacks on a policy's budget.",
    "survey": "Run a survey in which respondents randomise their answers.",
    "budget": "Show what is left to spend.",
    "read": "Explain what an ε means for one person.",
    "history": "List what was asked, by whom, at what cost.",
    "ledger": "Verify, export, back up, create or move a ledger.",
    "report": "Write a web page about an account, for publication.",
    "bundle": "Write a signed file with answers and their ledger lines.",
    "verify": "Verify a signed bundle, offline.",
    "key": "Make the key that signs bundles.",
    "serve": "Serve policies over HTTP: REST and web pages.",
    "auction": "Draw one private price for a file of bids.",
    "running": "Ask for running totals over days, at one price.",
    "above": "Find which of many counts exceed a threshold.",
    "requests": "Ask a server's owners to approve a release, or decide on it.",
    "user": "Add, disable, enable or list the users of a server.",
    "token": "Create, list or revoke the tokens of a server's users.",
    "login": "Save your token for a server.",
    "completion": "Print the completion script of bash, zsh or fish.",
}
"""The commands in order, each as --help lists it without importing it; a test compares them with their own words."""
_MODULE_OF = {name: name for name in SHORT_HELP if name != "check"} | {
    **dict.fromkeys(("describe", "dummy", "forget"), "policies"),
    **dict.fromkeys(("budget", "history", "read"), "accounts"),
    **dict.fromkeys(("above", "online"), "sessions"),
    **dict.fromkeys(("bundle", "key", "report", "verify"), "bundles"),
    **dict.fromkeys(("login", "token", "user"), "users"),
    "ask": "synopsis",
    "attack": "audit",
    "completion": "docs",
    "sample": "synthesize",
}
"""The module of each command, imported on first use; the command ``name`` is its ``name_command``."""


def _generated_kinds() -> dict[str, ReleaseKind]:
    """Return the release kinds whose command is generated from the fields of their spec."""
    from sfumato.curator.release_kinds import all_kinds

    return {name: kind for name, kind in all_kinds().items() if "command" not in kind.refusal_by_skin}


class Commands(click.Group):
    """The top-level group: imports commands on first use and turns errors into exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        documented_names = (*SHORT_HELP, *_generated_kinds())
        return [*documented_names, *(name for name in super().list_commands(ctx) if name not in documented_names)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _MODULE_OF:
            module = import_module(f"sfumato.cli.commands.{_MODULE_OF[cmd_name]}")
            lazy_command: click.Command = getattr(module, f"{cmd_name}_command")
            return lazy_command
        loaded_command = super().get_command(ctx, cmd_name)
        if loaded_command is not None or cmd_name not in _generated_kinds():
            return loaded_command
        from sfumato.cli.common.kind_commands import build_command

        return build_command(_generated_kinds()[cmd_name])

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with their short help, without importing what they run."""
        short_help = SHORT_HELP | {name: f"{kind.summary}." for name, kind in _generated_kinds().items()}
        rows = []
        for name in self.list_commands(ctx):
            command = None if name in short_help else self.get_command(ctx, name)
            rows.append((name, short_help[name] if command is None else command.get_short_help_str()))
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def main(self, *args: Any, **options: Any) -> Any:
        with guard_streams():
            return super().main(*args, **options)

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        with exit_on_refusal():  # --help and --version print from here
            return super().make_context(*args, **options)

    def invoke(self, ctx: click.Context) -> object:
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")  # a terminal that cannot encode ε still prints the answer
        if os.environ.get("NO_COLOR"):  # https://no-color.org
            ctx.color = False
        with exit_on_refusal(lambda: self._option_names_of_command(ctx), lambda: bool(ctx.meta.get(DETAILS_KEY))):
            return super().invoke(ctx)

    def _option_names_of_command(self, ctx: click.Context) -> set[str]:
        """Return the flags of the invoked command, without dashes."""
        invoked = self.get_command(ctx, ctx.invoked_subcommand or "")
        commands = list(invoked.commands.values()) if isinstance(invoked, click.Group) else [invoked]
        params = [param for command in commands if command is not None for param in command.params]
        return {flag.lstrip("-") for param in params if isinstance(param, click.Option) for flag in param.opts}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve the command by name; for an unknown one, suggest the closest match."""
        if self.get_command(ctx, args[0]) is None:
            close_matches = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            if close_matches:
                ctx.fail(f"there is no command {args[0]}: did you mean {close_matches[0]}?")
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EXIT_CODES_HELP)
@click.version_option(__version__, prog_name="sfumato")
def main() -> None:
    """Answer SQL questions about people with differential privacy: every number with its error, every answer charged.

    New here? Run: sfumato demo
    """


@main.command(short_help="Validate a policy and its data (for the owner).", epilog=EXIT_CODES_HELP)
@click.argument("policy", type=click.Path(path_type=Path))
@click.option("--public", is_flag=True, help="Check the policy alone: read no data, print nothing private.")
@click.option(
    "--lossy",
    metavar="TABLE.COLUMN",
    multiple=True,
    help="Accept that more than half of the values of this column become NULL; without this it is an error. "
    "Repeatable.",
)
def check(policy: Path, public: bool, lossy: tuple[str, ...]) -> None:
    """Validate POLICY and its data, and show the owner how much data its bounds and limits discard.

    Figures marked PRIVATE are exact, without noise: never log, share or publish them. They are printed and stored
    nowhere. The exit code is private too: it is 1 if more than half of a column's values become NULL. Figures marked
    SAFE TO SHARE come from the policy alone; with --public only these are printed, and the data do not affect the exit
    code.

    \b
    Examples:
      sfumato check clinic.toml
      sfumato check clinic.toml --lossy visits.ward
      sfumato check clinic.toml --public
    """
    from sfumato.cli.commands.policies import print_check

    if public and lossy:
        raise click.UsageError("leave out --lossy: with --public no data are read")
    print_check(policy, private=not public, lossy=lossy)
