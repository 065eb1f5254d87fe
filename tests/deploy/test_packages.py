"""The wheel and the source archive, built by the script and installed in an environment with nothing else in it."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ASKED = """
import sfumato as sf
with sf.open(sf.example()) as flights:
    print(flights.sql("SELECT COUNT(*) AS n FROM flights").release(epsilon=0.5).columns)
"""


def run(*command: str | Path, folder: Path) -> str:
    """Run a command without this checkout on its path, and return what it printed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(part) for part in command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
def test_the_wheel_or_the_archive_is_all_that_is_needed(tmp_path: Path) -> None:
    run(ROOT / "scripts" / "build", tmp_path / "dist", folder=tmp_path)
    (wheel,), (archive,) = (list((tmp_path / "dist").glob(pattern)) for pattern in ("*.whl", "*.tar.gz"))
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
    assert {"sfumato/py.typed", "sfumato/data/flights.parquet", "sfumato/manual/markdown/README.md"} <= set(names)
    assert not [name for name in names if name.startswith(("tests/", "bench/")) or "__pycache__" in name]
    with tarfile.open(archive) as packed_sources:
        sources = {name.partition("/")[2] for name in packed_sources.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml", "src/sfumato/__init__.py", "docs/README.md"} <= sources
    run(sys.executable, "-m", "venv", "bare", folder=tmp_path)
    installed = tmp_path / "bare" / "bin"
    run(installed / "python", "-m", "pip", "install", "--quiet", f"{wheel}[server]", folder=tmp_path)
    assert "sfumato" in run(installed / "sfumato", "--version", folder=tmp_path)
    assert "n" in run(installed / "python", "-c", ASKED, folder=tmp_path)
    assert run(installed / "sfumato", "docs", "median", folder=tmp_path)
    assert "serve" in run(installed / "sfumato", "serve", "--help", folder=tmp_path)
    run(
        installed / "python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--force-reinstall",
        "--no-deps",
        archive,
        folder=tmp_path,
    )
    assert "n" in run(installed / "python", "-c", ASKED, folder=tmp_path)
