"""The proxies' examples, in real nginx and Caddy with TLS, before a real server on a socket file."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.running_proxies import (
    DEPLOY,
    NAME,
    SNI,
    MakeProxy,
    caddy,
    nginx,
    proxy_client,
    require_program,
    running_proxy,
)
from server.running_server import COUNT, running_server

BOUGHT = {"kind": "questions", "spec": {"sql": COUNT}, "price": {"epsilon": "0.01"}}


@pytest.mark.parametrize("make", [nginx, caddy], ids=lambda make: make.__name__)
def test_an_analyst_asks_through_the_example(make: MakeProxy, tmp_path: Path, certificate: Path) -> None:
    require_program(make.__name__)
    spare, socket_file = tmp_path / "proxy", tmp_path / "s.sock"
    spare.mkdir()
    with (
        running_server(tmp_path, at=f"unix:{socket_file}", public_url=f"https://{NAME}", answer_after=1.0) as served,
        running_proxy(*make(spare, certificate, socket_file), spare, certificate) as base,
        proxy_client(base, certificate, served.tokens["ana"]) as client,
    ):
        assert client.get("/readyz", extensions=SNI).status_code == 200
        nobody = client.get("/v1/policies", headers={"Authorization": "Bearer no"}, extensions=SNI)
        assert nobody.status_code == 401
        answers = [
            client.post(
                "/v1/policies/flights/releases", json=BOUGHT, headers={"Idempotency-Key": "one"}, extensions=SNI
            )
            for _ in range(2)
        ]
        assert [answer.status_code for answer in answers] == [200, 200]
        assert [answer.json()["free"] for answer in answers] == [False, True]
        assert answers[0].json()["line"] == answers[1].json()["line"]
        long = client.post("/v1/policies/flights/releases", content=b"x" * 70_000, extensions=SNI)
        assert long.status_code == 413
        assert client.get("/v1/policies%2Fflights", extensions=SNI).status_code == 404
        auditor = {"Authorization": f"Bearer {served.tokens['audrey']}"}
        with client.stream("GET", "/v1/ledger/export", headers=auditor, extensions=SNI) as streamed:
            exported = b"".join(streamed.iter_bytes())
        assert json.loads(exported) == served.call("audrey", "GET", "/v1/ledger/export").json()
        other = client.get("/v1/policies", headers={"Host": "other.example"}, extensions=SNI)
        assert "flights" not in other.text
    assert served.tokens["ana"] not in (spare / "log").read_text()


def test_the_health_check_and_the_alarms_read_what_is_there(tmp_path: Path) -> None:
    check = [sys.executable, str(DEPLOY / "ready.py"), f"{tmp_path}/s.sock"]
    with running_server(tmp_path, at=f"unix:{tmp_path}/s.sock", public_url=f"https://{NAME}") as served:
        assert subprocess.run(check, check=False).returncode == 0
        metrics = served.call("olga", "GET", "/metrics").text
    alarmed = re.findall(r"sfumato_\w+", (DEPLOY.parent / "docs" / "how-to" / "deploy.md").read_text())
    assert alarmed
    assert all(f"# TYPE {name} " in metrics for name in alarmed)
    stopped = subprocess.run(check, check=False, capture_output=True, text=True)
    assert (stopped.returncode, "Traceback" in stopped.stderr) == (1, False)
