"""Real drivers in processes of their own: what each shows of the tables, and that its questions are answered.

``scripts/setup.sh`` gets them; one that is missing is skipped aloud.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from postgres_server import MISSING, PostgresServer, installations
from server.postgres.wire_server import WireServer, psql_programs, run_psql

CLIENTS = Path(os.environ.get("SFUMATO_CLIENTS", f"{sys.prefix}/clients"))
SCRIPTS = Path(__file__).parent / "clients"
JDBC = Path("/usr/share/java/postgresql.jar")
QUESTION = "SELECT region, COUNT(*) AS n FROM visits WHERE age < %s"
COLUMNS = {"patient": "TEXT", "region": "TEXT", "age": "BIGINT", "cost": "DOUBLE PRECISION", "day": "DATE"}


def require(condition: object, name: str, how: str) -> None:
    if not condition:
        pytest.skip(f"{name} is NOT tested: {how}, or run ./test once with access to the package registries")


def require_python(*packages: str) -> None:
    missing = [name for name in packages if not (CLIENTS / "python" / name).exists()]
    require(not missing, ", ".join(missing), f"pip install --target {CLIENTS / 'python'} (see scripts/setup.sh)")


def show(*command: str, **environment: str) -> str:
    """Run a client; return what it prints. It has a minute, and nothing but its own packages and the tests' own."""
    paths = os.pathsep.join([str(CLIENTS / "python"), *(path for path in sys.path if path.endswith("site-packages"))])
    ran = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": paths, "NODE_PATH": str(CLIENTS / "node_modules"), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def run_script(name: str, address: dict[str, Any], *steps: str) -> Any:
    runner = "node" if name.endswith(".js") else sys.executable
    return json.loads(show(runner, str(SCRIPTS / name), json.dumps(address), QUESTION, *steps))


def test_psycopg2_sqlalchemy_and_pandas(wire: WireServer) -> None:
    require_python("psycopg2", "sqlalchemy")
    shown = run_script("python_drivers.py", wire.keywords(), "psycopg2", "inspect", "ask")
    assert [row[0] for row in shown["psycopg2"].pop("rows")] == ["north", "south"]
    assert shown["psycopg2"] == {
        "named cursor": True,
        "copied": "region,n",
        "receipt": True,
        "rows are refused": "0A000",
    }
    assert shown["inspect"] == {
        "schemas": ["information_schema", "public", "sfumato"],
        "tables": ["visits"],
        "free tables": ["budget", "columns", "history", "receipts", "refusals"],
        "columns": COLUMNS,
        "comment": "integer from 0 to 110",
        "keys": [[], [], [], [], []],
        "views": [[], [], []],
        "reflected": {"public.visits": 5},
        "exist": [True, False],
    }
    assert shown["ask"] == {
        "rows": ["north", "south"],
        "read_sql": ["region", "n"],
        "read_sql_table": ["period", "currency", "allowed", "spent", "left"],
    }


def test_adbc_connectorx_and_polars(wire: WireServer) -> None:
    require_python("adbc_driver_postgresql", "connectorx")
    shown = run_script("arrow_drivers.py", wire.keywords())
    assert shown["list"] == {
        "tables": {"visits": sorted(COLUMNS)},
        "schema": {"patient": "string", "region": "string", "age": "int64", "cost": "double", "day": "date32[day]"},
    }
    assert [row["region"] for row in shown["ask"].pop("rows")] == ["north", "south"]
    assert shown["ask"] == {"bound": 1, "connectorx": [True] * 4, "comment": True, "polars": True}


@pytest.mark.parametrize(
    "way", ["plain", *(pytest.param(each, marks=pytest.mark.long) for each in ("cursors", "client-side"))]
)
def test_psqlodbc(wire: WireServer, way: str) -> None:
    require_python("pyodbc.pyi")
    drivers = Path("/etc/odbcinst.ini")
    installed = drivers.exists() and "[PostgreSQL Unicode]" in drivers.read_text()
    require(installed, "psqlodbc", "apt-get install odbc-postgresql unixodbc")
    shown = run_script("odbc_driver.py", wire.keywords(), way)
    assert shown["list"] == {
        "product": "PostgreSQL",
        "tables": [["public", "visits", "TABLE"]],
        "columns": [["patient", "text"], ["region", "text"], ["age", "int8"], ["cost", "float8"], ["day", "date"]],
        "keys": [0, 0, 0, 0],
        "types": True,
        "schemas": ["public", "sfumato"],
        "procedures": True,
    }
    assert shown[way] == {
        "regions": ["north", "south"],
        "types": ["str", "int"],
        "years": [2024],
        "rows are refused": "0A000",
    }


def test_node_postgres(wire: WireServer) -> None:
    require(shutil.which("node"), "node-postgres", "apt-get install nodejs npm")
    require((CLIENTS / "node_modules" / "pg").exists(), "node-postgres", f"npm install --prefix {CLIENTS} pg")
    assert run_script("node_postgres.js", wire.keywords()) == {
        "regions": ["north", "south"],
        "same": True,
        "receipt": True,
        "commands": ["BEGIN", "SELECT", "COMMIT"],
        "tables": ["visits"],
        "refused": "0A000",
        "pool": [1, 2, 3, 4],
    }


def run_jdbc(host: str, port: int, user: str, password: str, options: str) -> dict[str, str]:
    require(shutil.which("javac"), "JDBC", "apt-get install openjdk-17-jdk-headless")
    require(JDBC.exists(), "JDBC", "apt-get install libpostgresql-jdbc-java")
    url = f"jdbc:postgresql://{host}:{port}/clinic"
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", str(JDBC), str(SCRIPTS / "Jdbc.java")]
    printed = show(*command, url, user, password, options, QUESTION)
    return dict(line.split("\t", 1) for line in printed.splitlines())


def test_jdbc(wire: WireServer) -> None:
    shown = run_jdbc(wire.host, wire.port, "ana", wire.tokens["ana"], "-c sfumato.epsilon=0.05")
    assert shown["tables"].startswith("public,visits,TABLE,private; at most 2 rows of one patient count")
    assert [each.split(",")[0] for each in shown["columns"].split(" | ")] == list(COLUMNS)
    assert "age,int8,integer from 0 to 110,3,YES" in shown["columns"]
    assert [shown[name] for name in ("primary keys", "foreign keys", "indexes", "best row")] == [""] * 4
    assert (shown["schemas"], shown["catalogs"]) == ("public | sfumato", "clinic")
    assert shown["schema"] == "public clinic true"
    assert (shown["types"], shown["function columns"]) == ("true", "true")
    assert (shown["prepared"], shown["fetch size"]) == ("1 north | south", "north | south")
    assert (shown["timestamp"], shown["read-only"]) == ("1", "1")
    assert shown["rows are refused"].startswith("0A000 ERROR: rows are never shown")
    assert shown["writes are refused"].startswith("25006 ERROR: cannot execute DELETE")


def test_pgcli(wire: WireServer, tmp_path: Path) -> None:
    require_python("pgcli")
    typed = "\\dt\n\\d visits\n\\dn\nSELECT region, COUNT(*) AS n FROM visits GROUP BY region;\n"
    address = [f"--host={wire.host}", f"--port={wire.port}", "--username=ana", "--dbname=clinic", "--less-chatty"]
    command = f"from pgcli.main import cli; cli({address!r})"
    ran = subprocess.run(
        [sys.executable, "-c", command],
        env={
            **os.environ,
            "PYTHONPATH": str(CLIENTS / "python"),
            "PGPASSWORD": wire.tokens["ana"],
            "HOME": str(tmp_path),
            "XDG_CONFIG_HOME": str(tmp_path),
        },
        input=typed + "\\q\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "| public | visits | table | sfumato |" in ran.stdout, ran.stdout + ran.stderr
    assert "| cost    | double precision |" in ran.stdout
    assert "| sfumato | sfumato           |" in ran.stdout
    assert "this question has no price" in ran.stdout + ran.stderr


# ── beside a real server ───────────────────────────────────────────────────────────────────────


@pytest.fixture
def real_server() -> Iterator[dict[str, Any]]:
    """A PostgreSQL with the same table, empty, whose analyst may read it; drivers sign in by SCRAM."""
    if not installations():
        pytest.skip(MISSING)
    server = PostgresServer(installations()[0]).make()
    try:
        server.start()
        server.execute("CREATE ROLE ana LOGIN PASSWORD 'secret'", "CREATE DATABASE clinic")
        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        server.execute(
            f"CREATE TABLE visits ({columns})",
            "GRANT SELECT ON visits TO ana",
            "CREATE SCHEMA sfumato",
            database="clinic",
        )
        server.stop()
        rules = server.data / "pg_hba.conf"
        rules.write_text(f"host all ana 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
        server.port = port = free_port()
        server.start(listen_addresses="127.0.0.1", port=str(port))
        yield {"host": "127.0.0.1", "port": port, "user": "ana", "password": "secret", "dbname": "clinic"}
    finally:
        server.remove()


def free_port() -> int:
    import socket

    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
    return port


@pytest.mark.long
def test_what_drivers_list_is_equal_to_a_real_server_s(wire: WireServer, real_server: dict[str, Any]) -> None:
    """But for comments, which PostgreSQL's tables have none of, and the owner's name."""
    with psycopg.connect(**real_server) as connection:
        assert connection.execute("SELECT COUNT(*) FROM visits").fetchone() == (0,)
    ours = run_jdbc(wire.host, wire.port, "ana", wire.tokens["ana"], "")
    theirs = run_jdbc(real_server["host"], real_server["port"], "ana", "secret", "")
    differ = {name for name in theirs if ours[name] != theirs[name]}
    assert differ <= {"tables", "columns", "privileges"}
    require_python("psycopg2", "sqlalchemy")
    (mine,) = run_script("python_drivers.py", wire.keywords(), "inspect").values()
    (other,) = run_script("python_drivers.py", real_server, "inspect").values()
    assert {name for name in other if mine[name] != other[name]} == {"free tables", "comment"}


SHOWN_BY_PSQL = [
    "\\d", "\\d visits", "\\d+ visits", "\\dt", "\\dt+", "\\dp visits", "\\l", "\\dn", "\\dn+", "\\du", "\\df", "\\di",
    "\\dv", "\\dm", "\\ds", "\\dE", "\\dT", "\\dD", "\\dx", "\\dX", "\\dP", "\\dA", "\\db", "\\do", "\\dO", "\\dc",
    "\\dC", "\\ddp", "\\drds", "\\dRp", "\\dy", "\\det",
]  # fmt: skip
LISTED_DIFFERENCES = {
    "\\d+ visits": "comments",
    "\\dt+": "comments, and sizes, which are 0",
    "\\dn+": "rights to the schema sfumato",
    "\\l": "one database",
    "\\dx": "no extensions",
    "\\dA": "two access methods",
    "\\dC": "no casts",
}


@pytest.mark.long
@pytest.mark.parametrize("program", psql_programs())
def test_what_psql_shows_is_equal_to_a_real_server_s(
    wire: WireServer, real_server: dict[str, Any], program: str
) -> None:
    """But for a listed few, and the owner's name."""
    theirs = "host={host} port={port} user={user} dbname={dbname}".format(**real_server)
    different = set()
    for command in SHOWN_BY_PSQL:
        shown = wire.psql(command, program=program)
        assert "ERROR" not in shown, (command, shown)
        if shown != run_psql(program, theirs, "secret", command).replace("postgres", "sfumato"):
            different.add(command)
    assert different == set(LISTED_DIFFERENCES)
