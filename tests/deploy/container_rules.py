"""The well-known rules of hadolint for container files, by its own codes; the real one is asked too where it is.

A rule is a function from a parsed file to the lines that break it. Rules about package managers and base images that
the project does not use (npm, gem, yum, zypper, Alpine but for its pins) are left to the real hadolint.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

SHELL_OPERATORS = frozenset(("&&", "||", ";", "|", "|&", "&", "(", ")"))
POINTLESS = frozenset(("free", "ifconfig", "kill", "mount", "ps", "service", "shutdown", "ssh", "top", "vim"))
"""Commands that make no sense while an image is built."""


@dataclass(frozen=True)
class Instruction:
    """One instruction with its continuation lines joined."""

    line: int
    name: str
    rest: str
    stage: int
    """Counted from 1; 0 stands before the first FROM."""

    @cached_property
    def words(self) -> tuple[str, ...]:
        return tuple(self.rest.split())

    @cached_property
    def commands(self) -> tuple[tuple[str, ...], ...]:
        """The simple commands of a RUN, each as its words, without the paths of programs."""
        if self.name != "RUN" or self.rest.startswith("["):
            return ()
        lexer = shlex.shlex(self.rest, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        split: list[list[str]] = [[]]
        for token in lexer:
            if token in SHELL_OPERATORS:
                split.append([])
            else:
                split[-1].append(token)
        return tuple((words[0].rpartition("/")[2], *words[1:]) for words in split if words)

    def runs(self, program: str, act: str = "") -> bool:
        return any(True for _ in self.calls(program, act))

    def calls(self, program: str, act: str = "") -> Iterator[tuple[str, ...]]:
        """Yield the words after each call of a program, such as ``apt-get install``."""
        for command in self.commands:
            if command[0] == program and (not act or act in command):
                yield command[command.index(act) + 1 if act else 1 :]


@dataclass(frozen=True)
class ContainerFile:
    """A container file as its instructions."""

    instructions: tuple[Instruction, ...]

    @classmethod
    def parse(cls, text: str) -> ContainerFile:
        """Parse a file: comments are dropped, and continued lines joined."""
        instructions, stage, start, pending = [], 0, 0, ""
        for number, line in enumerate(text.splitlines(), 1):
            if line.lstrip().startswith("#") or not (pending or line.strip()):
                continue
            start = start if pending else number
            pending += line.rstrip("\\") if line.endswith("\\") else line
            if line.endswith("\\"):
                continue
            name, _, rest = pending.strip().partition(" ")
            stage += name.upper() == "FROM"
            instructions.append(Instruction(start, name.upper(), rest.strip(), stage))
            pending = ""
        return cls(tuple(instructions))

    def of(self, *names: str) -> Iterator[Instruction]:
        return (each for each in self.instructions if each.name in names)

    @property
    def stages(self) -> int:
        return self.instructions[-1].stage

    @property
    def aliases(self) -> dict[int, str]:
        """The names of stages, by their numbers."""
        return {each.stage: each.words[-1] for each in self.of("FROM") if len(each.words) == 3}

    def images(self) -> Iterator[tuple[int, str]]:
        """Yield the lines and images that come from a registry."""
        aliases = set(self.aliases.values())
        return ((each.line, each.words[0]) for each in self.of("FROM") if each.words[0] not in aliases | {"scratch"})


Rule = Callable[[ContainerFile], Iterator[int]]
RULES: dict[str, Rule] = {}


def rule(code: str) -> Callable[[Rule], Rule]:
    """Register a rule under hadolint's code."""

    def register(check: Rule) -> Rule:
        RULES[code] = check
        return check

    return register


def find_broken_rules(text: str) -> dict[str, list[int]]:
    """Return the lines that break each rule."""
    file = ContainerFile.parse(text)
    found = {code: list(check(file)) for code, check in RULES.items()}
    return {code: lines for code, lines in found.items() if lines}


# ── images and stages ──────────────────────────────────────────────────────────────────────────


@rule("DL3006")
def image_without_a_tag(file: ContainerFile) -> Iterator[int]:
    return (line for line, image in file.images() if ":" not in image.rpartition("/")[2] and "@" not in image)


@rule("DL3007")
def latest_image(file: ContainerFile) -> Iterator[int]:
    return (line for line, image in file.images() if image.endswith(":latest"))


@rule("DL3022")
def copy_from_an_unknown_stage(file: ContainerFile) -> Iterator[int]:
    for each in file.of("COPY"):
        source = re.search(r"--from=(\S+)", each.rest)
        known = {alias for stage, alias in file.aliases.items() if stage < each.stage}
        if source and ":" not in source[1] and source[1] not in known and not source[1].isdigit():
            yield each.line


@rule("DL3024")
def stage_named_twice(file: ContainerFile) -> Iterator[int]:
    names = [(each.line, each.words[-1]) for each in file.of("FROM") if len(each.words) == 3]
    return (line for index, (line, name) in enumerate(names) if name in [other for _, other in names[:index]])


@rule("DL4000")
def maintainer(file: ContainerFile) -> Iterator[int]:
    return (each.line for each in file.of("MAINTAINER"))


def _repeated(file: ContainerFile, name: str) -> Iterator[int]:
    in_last_stage = [each.line for each in file.of(name) if each.stage == file.stages]
    return iter(in_last_stage[1:])


RULES["DL4003"] = lambda file: _repeated(file, "CMD")
RULES["DL4004"] = lambda file: _repeated(file, "ENTRYPOINT")
RULES["DL3012"] = lambda file: _repeated(file, "HEALTHCHECK")


# ── who runs it, where, and how ────────────────────────────────────────────────────────────────


@rule("DL3002")
def last_user_is_root(file: ContainerFile) -> Iterator[int]:
    users = [each for each in file.of("USER") if each.stage == file.stages]
    if users and users[-1].rest.partition(":")[0] in ("root", "0"):
        yield users[-1].line


@rule("DL3000")
def relative_working_folder(file: ContainerFile) -> Iterator[int]:
    return (each.line for each in file.of("WORKDIR") if not each.rest.strip("\"'").startswith(("/", "$")))


@rule("DL3003")
def changes_its_folder(file: ContainerFile) -> Iterator[int]:
    return (each.line for each in file.of("RUN") if each.runs("cd"))


@rule("DL3004")
def sudo(file: ContainerFile) -> Iterator[int]:
    return (each.line for each in file.of("RUN") if each.runs("sudo"))


@rule("DL3001")
def pointless_command(file: ContainerFile) -> Iterator[int]:
    return (each.line for each in file.of("RUN") if POINTLESS & {command[0] for command in each.commands})


@rule("DL3011")
def impossible_port(file: ContainerFile) -> Iterator[int]:
    ports = ((each.line, int(port)) for each in file.of("EXPOSE") for port in re.findall(r"\d+", each.rest))
    return (line for line, port in ports if not port <= 65_535)


@rule("DL3025")
def command_as_a_text(file: ContainerFile) -> Iterator[int]:
    return (each.line for each in file.of("CMD", "ENTRYPOINT") if not _is_json_list(each.rest))


def _is_json_list(text: str) -> bool:
    try:
        return isinstance(json.loads(text), list)
    except ValueError:
        return False


@rule("DL3044")
def variable_of_its_own_instruction(file: ContainerFile) -> Iterator[int]:
    for each in file.of("ENV"):
        names = [word.partition("=")[0] for word in each.words]
        if any(re.search(rf"\$\{{?{re.escape(name)}\b", each.rest) for name in names if name != "PATH"):
            yield each.line


@rule("DL4006")
def pipe_without_pipefail(file: ContainerFile) -> Iterator[int]:
    safe: set[int] = set()
    for each in file.instructions:
        if each.name == "SHELL" and "pipefail" in each.rest:
            safe.add(each.stage)
        elif each.name == "RUN" and each.stage not in safe and re.search(r"(?<!\|)\|(?!\|)", each.rest):
            yield each.line


# ── files ──────────────────────────────────────────────────────────────────────────────────────


@rule("DL3020")
def add_of_files(file: ContainerFile) -> Iterator[int]:
    archives = (".tar", ".tgz", ".gz", ".xz", ".bz2")
    return (
        each.line
        for each in file.of("ADD")
        if not any(word.startswith(("http://", "https://")) or word.endswith(archives) for word in each.words)
    )


@rule("DL3021")
def copy_of_several_to_no_folder(file: ContainerFile) -> Iterator[int]:
    for each in file.of("COPY"):
        paths = [word for word in each.words if not word.startswith("--")]
        if len(paths) > 2 and not paths[-1].endswith("/"):
            yield each.line


@rule("DL3045")
def copy_to_a_relative_path(file: ContainerFile) -> Iterator[int]:
    placed = {each.stage: each.line for each in reversed([*file.of("WORKDIR")])}
    for each in file.of("COPY"):
        if not each.words[-1].startswith(("/", "$")) and placed.get(each.stage, each.line) >= each.line:
            yield each.line


# ── packages ───────────────────────────────────────────────────────────────────────────────────


def _apt_installs(file: ContainerFile) -> Iterator[tuple[int, tuple[str, ...]]]:
    return ((each.line, words) for each in file.of("RUN") for words in each.calls("apt-get", "install"))


def _packages(words: tuple[str, ...]) -> list[str]:
    return [word for word in words if not word.startswith("-")]


@rule("DL3008")
def apt_without_versions(file: ContainerFile) -> Iterator[int]:
    return (line for line, words in _apt_installs(file) if any("=" not in name for name in _packages(words)))


@rule("DL3009")
def apt_lists_are_kept(file: ContainerFile) -> Iterator[int]:
    for each in file.of("RUN"):
        if each.runs("apt-get", "update") and "rm -rf /var/lib/apt/lists" not in each.rest:
            yield each.line


@rule("DL3014")
def apt_asks(file: ContainerFile) -> Iterator[int]:
    for each in file.of("RUN"):
        for command in each.commands:
            confirmed = {"-y", "-qq", "--yes", "--assume-yes"} & set(command)
            if command[0] == "apt-get" and "install" in command and not confirmed:
                yield each.line


@rule("DL3015")
def apt_recommends(file: ContainerFile) -> Iterator[int]:
    return (line for line, words in _apt_installs(file) if "--no-install-recommends" not in words)


@rule("DL3027")
def apt_for_people(file: ContainerFile) -> Iterator[int]:
    return (each.line for each in file.of("RUN") if each.runs("apt"))


@rule("DL3018")
def apk_without_versions(file: ContainerFile) -> Iterator[int]:
    added = ((each.line, words) for each in file.of("RUN") for words in each.calls("apk", "add"))
    return (line for line, words in added if any("=" not in name for name in _packages(words)))


def _pip_installs(file: ContainerFile) -> Iterator[tuple[int, tuple[str, ...]]]:
    for each in file.of("RUN"):
        for program in ("pip", "pip3"):
            yield from ((each.line, words) for words in each.calls(program, "install"))


@rule("DL3013")
def pip_without_versions(file: ContainerFile) -> Iterator[int]:
    def is_pinned(name: str) -> bool:
        return name.startswith((".", "/")) or any(mark in name for mark in ("==", "@", ".whl"))

    for line, words in _pip_installs(file):
        if not {"-r", "--requirement", "-c", "--constraint"} & set(words) and not all(map(is_pinned, _packages(words))):
            yield line


@rule("DL3042")
def pip_keeps_a_cache(file: ContainerFile) -> Iterator[int]:
    cached = {each.stage for each in file.of("ENV") if "PIP_NO_CACHE_DIR" in each.rest}
    stage_of = {each.line: each.stage for each in file.instructions}
    for line, words in _pip_installs(file):
        if "--no-cache-dir" not in words and stage_of[line] not in cached:
            yield line


# ── the shell ──────────────────────────────────────────────────────────────────────────────────


@rule("SC1000")
def not_a_shell_script(file: ContainerFile) -> Iterator[int]:
    """Stands for the parse errors of ShellCheck (SC1xxx): the shell itself refuses the text."""
    for each in file.of("RUN"):
        parsed = subprocess.run(["sh", "-n", "-c", each.rest], capture_output=True, check=False)
        if parsed.returncode:
            yield each.line


@rule("SC2086")
def variable_without_quotes(file: ContainerFile) -> Iterator[int]:
    for each in file.of("RUN"):
        outside = re.sub(r"'[^']*'|\"[^\"]*\"", "", each.rest)
        if re.search(r"(?<![=\w])\$\{?[A-Za-z_]", outside):
            yield each.line
