"""``sfumato completion``: print the script that completes commands, options and files in a shell."""

from __future__ import annotations

import click

from sfumato.cli.common.exit_codes import EXIT_CODES_HELP

_PROGRAM = "sfumato"
_VARIABLE = "_SFUMATO_COMPLETE"
"""The variable by which the script asks this program for completions, named as click derives it."""


@click.command(short_help="Print the completion script of bash, zsh or fish.", epilog=EXIT_CODES_HELP)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print a script that lets SHELL complete commands, options and files of sfumato with Tab.

    \b
    Examples:
      eval "$(sfumato completion bash)"
      sfumato completion bash >> ~/.bashrc
      sfumato completion zsh >> ~/.zshrc
      sfumato completion fish > ~/.config/fish/completions/sfumato.fish
    """
    from click.shell_completion import get_completion_class

    from sfumato.cli import main

    completion_class = get_completion_class(shell)
    assert completion_class is not None, "every choice is a shell that click knows"
    click.echo(completion_class(main, {}, _PROGRAM, _VARIABLE).source())
