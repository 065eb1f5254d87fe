"""The command line is a skin on the library: it has no logic of its own."""

from __future__ import annotations

import difflib
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sfumato import __version__
from sfumato.cli.common.exit_codes import EXIT_CODES, refusals, streams
from sfumato.cli.common.options import DETAILS

if TYPE_CHECKING:
    from sfumato.curator.release_kinds import ReleaseKind

_ORDER = (
    "demo",
    "init",
    "dummy",
    "check",
    "audit",
    "describe",
    "query",
    "shell",
    "publish",
    "synthesize",
    "sample",
    "ask",
    "synopsis",
    "online",
    "quality",
    "attack",
    "survey",
    "budget",
    "read",
    "history",
    "ledger",
    "report",
    "bundle",
    "verify",
    "key",
    "serve",
    "auction",
    "running",
    "above",
    "user",
    "token",
    "login",
)
_LATER = tuple(name for name in _ORDER if name != "check")
"""Commands that live in modules of their own, each imported when it is named."""


def _kinds() -> dict[str, ReleaseKind]:
    """Import the kinds of release whose command is made of their fields."""
    from sfumato.curator.release_kinds import all_kinds

    return {name: kind for name, kind in all_kinds().items() if "command" not in kind.skins}


class Commands(click.Group):
    """These commands are imported on first use, and end with the exit code of what went wrong."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        named = (*_ORDER, *_kinds())
        return [*named, *(name for name in super().list_commands(ctx) if name not in named)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _LATER:
            found: click.Command = import_module(f"sfumato.cli.commands.{cmd_name}").command
            return found
        known = super().get_command(ctx, cmd_name)
        if known is not None or cmd_name not in _kinds():
            return known
        from sfumato.cli.common.kind_commands import command_for

        return command_for(_kinds()[cmd_name])

    def main(self, *args: Any, **options: Any) -> Any:
        with streams():
            return super().main(*args, **options)

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        with refusals():  # --help and --version are written here
            return super().make_context(*args, **options)

    def invoke(self, ctx: click.Context) -> object:
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")  # a terminal without ε still gets its answer
        if os.environ.get("NO_COLOR"):  # https://no-color.org
            ctx.color = False
        with refusals(lambda: self._flags(ctx), lambda: bool(ctx.meta.get(DETAILS))):
            return super().invoke(ctx)

    def _flags(self, ctx: click.Context) -> set[str]:
        """Name the flags of the command that was invoked, without their dashes."""
        invoked = self.get_command(ctx, ctx.invoked_subcommand or "")
        inside = list(invoked.commands.values()) if isinstance(invoked, click.Group) else [invoked]
        params = [each for command in inside if command is not None for each in command.params]
        return {name.lstrip("-") for each in params if isinstance(each, click.Option) for name in each.opts}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is named; of one that does not exist, say which is like it."""
        close = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
        if close and close[0] != args[0] and self.get_command(ctx, args[0]) is None:
            ctx.fail(f"no command is called {args[0]}: did you mean {close[0]}?")
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EXIT_CODES)
@click.version_option(__version__, prog_name="sfumato")
def main() -> None:
    """Ask for private answers about people, with honest error bars and a budget that holds.

    New here? Run: sfumato demo
    """


@main.command(short_help="Validate a policy, for its owner.", epilog=EXIT_CODES)
@click.argument("policy", type=click.Path(path_type=Path))
@click.option("--public", is_flag=True, help="Only validate: print nothing that is private.")
@click.option(
    "--lossy",
    metavar="TABLE.COLUMN",
    multiple=True,
    help="Acknowledge that most values of this column are made NULL, which is an error otherwise. Repeatable.",
)
def check(policy: Path, public: bool, lossy: tuple[str, ...]) -> None:
    """Validate POLICY and its sources, and tell you, the owner, what bounds and limits cost.

    The figures marked PRIVATE are exact and protected by no noise: never log, share or publish them. They are printed
    and kept nowhere. So is the exit code: it is 1 when more than half of a column's values are made NULL. What is
    marked SAFE TO SHARE is computed from the policy alone; with --public nothing else is printed or decides the code.

    \b
    Examples:
      sfumato check clinic.toml
      sfumato check clinic.toml --lossy visits.ward
      sfumato check clinic.toml --public
    """
    from sfumato.cli.commands.check import report

    if public and lossy:
        raise click.UsageError("leave out --lossy with --public, which looks at no values")
    report(policy, private=not public, lossy=lossy)
