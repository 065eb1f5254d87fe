"""Writes the pages on Python and on the commands from the docstrings. Run with: .venv/bin/python
docs/reference/make_python.py
"""

from __future__ import annotations

import ast
import enum
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import click

import sfumato as sf
from sfumato.cli import main

HERE = Path(__file__).parent
NOTE = "<!-- Written by docs/reference/make_python.py from the docstrings; a test keeps it up to date. -->"
PAGES = {
    "curator": (
        "The curator and its answers",
        "What opens a table, asks it, and holds what was answered or published.",
    ),
    "questions": ("What questions are made of", "What stands in `.agg(…)` of a question that is built in Python."),
    "mechanisms": ("Mechanisms", "Each knows how it is drawn, what it leaks and how wrong it can be."),
    "privacy": ("The mathematics of loss", "Guarantees, curves, budgets, and the textbook's theorems as functions."),
    "ledger": ("Policies and the ledger", "What is public about the tables, and what was spent."),
    "evidence": ("Audits, games, surveys and quality", "Evidence, incentives, and what needs no curator."),
    "errors": ("What is refused", "Every refusal is one of these, and carries its numbers."),
}
_PAGE_OF = {
    "plan": "questions",
    "mechanisms": "mechanisms",
    "privacy": "privacy",
    "ledger": "ledger",
    "policy": "ledger",
    "attacks": "evidence",
    "audit": "evidence",
    "games": "evidence",
    "quality": "evidence",
    "surveys": "evidence",
    "errors": "errors",
}
"""Which page a package is on; all others are on the first."""


def pages() -> dict[str, str]:
    """Make every page, by its file name."""
    items: dict[str, list[tuple[str, Any]]] = {page: [] for page in PAGES}
    for name in sf.__all__:
        if name != "__version__":
            found = getattr(sf, name)
            items[_page(found)].append((name, found))
    made = {f"python-{page}.md": _page_text(page, found) for page, found in items.items()}
    return made | {"commands.md": commands()}


def _page(item: Any) -> str:
    home = item.__name__ if isinstance(item, ModuleType) else item.__module__
    return _PAGE_OF.get(home.split(".")[1], "curator")


def _page_text(page: str, items: list[tuple[str, Any]]) -> str:
    title, introduction = PAGES[page]
    lines = [
        f"# Python: {title[0].lower()}{title[1:]}",
        "",
        NOTE,
        "",
        f"{introduction} `import sfumato as sf` comes first.",
    ]
    for name, item in sorted(items, key=lambda each: (isinstance(each[1], ModuleType), each[0].lower())):
        lines += ["", *(_module(name, item) if isinstance(item, ModuleType) else _item(f"sf.{name}", item))]
    return "\n".join(lines) + "\n"


def _module(name: str, module: ModuleType) -> Iterator[str]:
    """List a module whose functions are called by its name, such as ``sf.theorems``."""
    yield from (f"## sf.{name}", "", *_prose(inspect.getdoc(module)))
    for each in sorted(_public(module), key=str.lower):
        yield ""
        yield from _item(f"sf.{name}.{each}", getattr(module, each), level=3)


def _public(module: ModuleType) -> Iterable[str]:
    listed = getattr(module, "__all__", None)
    if listed is None:
        listed = [key for key, each in vars(module).items() if getattr(each, "__module__", None) == module.__name__]
    return [key for key in listed if not key.startswith("_") and callable(getattr(module, key))]


def _item(name: str, item: Any, level: int = 2) -> Iterator[str]:
    yield from (f"{'#' * level} {name}", "")
    if inspect.isclass(item):
        yield from _class(name, item)
    else:
        yield from (*_signature(name, item), *_prose(inspect.getdoc(item)))


def _class(name: str, item: type) -> Iterator[str]:
    short = name.rsplit(".", 1)[1]
    if issubclass(item, enum.Enum):
        yield from ("```py", *(f"{short}.{each.name}  # {each.value!r}" for each in item), "```", "")
    elif not issubclass(item, BaseException) and item.__init__ is not object.__init__:
        yield from _signature(name, item)
    yield from _prose(inspect.getdoc(item))
    fields = dict(_documented_fields(item))
    for field, text in fields.items():
        yield from ("", f"**`.{field}`** {_inline(text)}")
    for key, member in _members(item):
        if key not in fields:
            yield from ("", *_member(key, member))


def _members(item: type) -> Iterator[tuple[str, Any]]:
    """List what a class and the classes of ours that it is made from have, but nothing of the language's own."""
    seen: dict[str, Any] = {}
    for each in reversed(item.__mro__):
        if each.__module__.startswith("sfumato"):
            seen |= {key: member for key, member in vars(each).items() if not key.startswith("_")}
    for key, member in seen.items():
        if (_is_property(member) or callable(inspect.unwrap(getattr(item, key)))) and inspect.getdoc(_text_of(member)):
            yield key, member


def _is_property(member: Any) -> bool:
    return isinstance(member, property) or type(member).__name__ == "cached_property"


def _text_of(member: Any) -> Any:
    return member.__func__ if isinstance(member, classmethod | staticmethod) else member


def _member(key: str, member: Any) -> Iterator[str]:
    first, *rest = _prose(inspect.getdoc(_text_of(member)))
    called = "" if _is_property(member) else _parameters(_text_of(member), bound=not isinstance(member, staticmethod))
    yield f"**`.{key}{called}`** {first}"
    yield from rest


def _signature(name: str, item: Any) -> Iterator[str]:
    try:
        yield from ("```py", f"{name}{_parameters(item)}", "```", "")
    except ValueError:
        return


def _parameters(item: Any, *, bound: bool = False) -> str:
    """Write parameters with their types, one line if there is room."""
    signature = inspect.signature(item)
    words, keyword = [], False
    for each in list(signature.parameters.values())[1 if bound else 0 :]:
        if each.kind is each.KEYWORD_ONLY and not keyword:
            words.append("*")
        keyword = keyword or each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        words.append(_parameter(each))
    returned = _annotation(signature.return_annotation)
    after = f" -> {returned}" if returned not in ("", "None") and not inspect.isclass(item) else ""
    line = f"({', '.join(words)}){after}"
    if len(line) < 90 or bound:
        return line
    return "\n".join(["(", *(f"    {word}," for word in words), f"){after}"])


def _parameter(each: inspect.Parameter) -> str:
    stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
    kind = _annotation(each.annotation)
    word = f"{stars}{each.name}{': ' + kind if kind else ''}"
    return word if each.default is each.empty else f"{word} = {_default(each.default)}"


def _annotation(annotation: Any) -> str:
    if annotation is inspect.Parameter.empty:
        return ""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    return text.replace("os.PathLike[str]", "PathLike").strip("'\"")


def _default(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    return repr(value) if value is None or isinstance(value, bool | int | float | str | tuple) else "..."


@lru_cache
def _tree(path: str) -> ast.Module:
    return ast.parse(Path(path).read_text())


def _documented_fields(item: type) -> Iterator[tuple[str, str]]:
    """Find the texts that stand under the fields of a class, its own and those of classes that it is made from."""
    for each in reversed(item.__mro__):
        if each.__module__.startswith("sfumato"):
            path = inspect.getsourcefile(each)
            assert path is not None
            yield from _fields_in(_tree(path), each.__qualname__)


def _fields_in(tree: ast.Module, name: str) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == name:
            for field, text in zip(node.body, node.body[1:], strict=False):
                target = field.target if isinstance(field, ast.AnnAssign) else None
                if not isinstance(target, ast.Name) or target.id.startswith("_"):
                    continue
                if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                    yield target.id, inspect.cleandoc(str(text.value.value))


def _prose(text: str | None) -> list[str]:
    """Write a docstring as Markdown: paragraphs, and examples apart. Those are run where they stand in the code."""
    lines: list[str] = []
    for part in re.split(r"\n\s*\n", text or ""):
        if lines:
            lines.append("")
        if part.lstrip().startswith(">>>"):
            lines += ["```python-console", textwrap.dedent(part), "```"]
        elif part.startswith("    "):
            lines += ["```text", textwrap.dedent(part), "```"]
        else:
            said, _, example = part.partition("\n>>> ")
            lines.append(_inline(said))
            if example:
                lines += ["", "```python-console", f">>> {example}", "```"]
    return lines


def _inline(text: str) -> str:
    """Keep code as code, and let nothing else be taken for a mark of Markdown."""
    parts = re.split(r"``(.+?)``", " ".join(text.split()))
    return "".join(f"`{each}`" if place % 2 else _escaped(each) for place, each in enumerate(parts))


def _escaped(text: str) -> str:
    return re.sub(r"([*\[])", r"\\\1", text).replace("<", "&lt;")


def commands() -> str:
    """Make the page on the commands from what they print with --help."""
    lines = [
        "# Commands",
        "",
        NOTE,
        "",
        "Every command says the same with `--help`. The [exit code](exit-codes.md) says what went wrong.",
    ]
    context = click.Context(main, info_name="sfumato")
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        lines += _command(f"sfumato {name}", command, 2)
    return "\n".join(lines) + "\n"


def _command(name: str, command: click.Command, level: int) -> Iterator[str]:
    arguments = " ".join(_argument(each) for each in command.params if isinstance(each, click.Argument))
    yield from ("", f"{'#' * level} {name}", "", "```text", f"{name} {arguments}".strip(), "```", "")
    yield from _help(command.help or "")
    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    if options:
        yield from ("| option | meaning |", "|---|---|", *map(_option, options))
    if isinstance(command, click.Group):
        for each in sorted(command.commands):
            yield from _command(f"{name} {each}", command.commands[each], level + 1)


def _argument(each: click.Argument) -> str:
    word = (each.metavar or (each.name or "").upper()) + ("…" if each.nargs == -1 else "")
    return word if each.required else f"[{word}]"


def _help(text: str) -> Iterator[str]:
    for part in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        if part.startswith("\b"):
            yield from ("```text", part.removeprefix("\b").strip("\n"), "```", "")
        elif part.strip():
            yield from (_inline(part), "")


def _option(each: click.Option) -> str:
    value = "" if each.is_flag or each.count else f" {each.metavar or each.type.name.upper()}"
    names = ", ".join(f"`{name}{value}`" for name in (*each.opts, *each.secondary_opts))
    text = _inline(each.help or "").replace("|", "\\|")
    return f"| {names.replace('|', chr(92) + '|')} | {text} |"


if __name__ == "__main__":
    for file, text in pages().items():
        (HERE / file).write_text(text)
