"""What a fresh installation of the core takes on disk, in all and for each package.

Run with: .venv/bin/python bench/installed.py
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

GOAL = 300
_SHOWN = 8


def megabytes(path: Path) -> float:
    """Add up what files take on disk, in MiB."""
    files = [path] if path.is_file() else [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
    return sum(each.lstat().st_blocks for each in files) * 512 / 2**20


def main() -> None:
    root = Path(__file__).parent.parent
    with TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [f"{folder}/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, str(root)], check=True)
        (packages,) = Path(folder, "lib").glob("python3*/site-packages")
        sizes = {each.name: megabytes(each) for each in packages.iterdir()}
        total = megabytes(Path(folder))
    for name, size in sorted(sizes.items(), key=lambda each: -each[1])[:_SHOWN]:
        print(f"{name[:56]:<58}{size:>9.0f} MiB")
    arrow = sum(size for name, size in sizes.items() if name.startswith("pyarrow"))
    print(f"{'in all':<58}{total:>9.0f} MiB  goal: {GOAL}")
    print(f"{'without pyarrow':<58}{total - arrow:>9.0f} MiB")


if __name__ == "__main__":
    main()
