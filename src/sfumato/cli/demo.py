"""x"""

import click

command = click.Command("demo")
