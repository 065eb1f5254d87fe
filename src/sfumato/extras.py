"""How a missing extra is installed into the running environment."""

from __future__ import annotations

import re
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path


def install_command(extra: str) -> str:
    """Return the command that installs an extra into the running environment, whatever pip is first on the path."""
    return f"run {_installer()} 'sfumato[{extra}]' (or 'sfumato[all]' for every extra)"


def _installer() -> str:
    """Return the command that installs into this environment, which need not have a pip of its own."""
    python, environment = shlex.quote(sys.executable), Path(sys.prefix)
    if (environment / "uv-receipt.toml").is_file():
        return "uv tool install --force"
    if (environment / "pipx_metadata.json").is_file():
        return "pipx install --force"
    if find_spec("pip") is not None:
        return f"{python} -m pip install"
    settings = environment / "pyvenv.cfg"
    if settings.is_file() and re.search(r"^uv\s*=", settings.read_text(encoding="utf-8"), re.MULTILINE):
        return f"uv pip install --python {python}"
    return f"{python} -m ensurepip && {python} -m pip install"
