"""psycopg2, SQLAlchemy and pandas: run by ``test_drivers`` in a process of its own; prints what each step showed."""

from __future__ import annotations

import datetime as dt
import io
import json
import sys
from collections.abc import Callable
from typing import Any

import pandas as pd
import psycopg2
import sqlalchemy as sa

ADDRESS: dict[str, Any] = json.loads(sys.argv[1])
QUESTION: str = sys.argv[2]
OPTIONS = "-c sfumato.epsilon=0.05"
URL = "postgresql+psycopg2://{user}:{password}@{host}:{port}/{dbname}".format(**ADDRESS)


def ask_with_psycopg2() -> dict[str, Any]:
    connection = psycopg2.connect(**ADDRESS, options=OPTIONS)
    shown: dict[str, Any] = {}
    with connection.cursor() as cursor:
        cursor.execute(f"{QUESTION} AND day > %s GROUP BY region", (77, dt.date(2024, 2, 1)))
        rows = shown["rows"] = cursor.fetchall()
    with connection.cursor("named") as cursor:
        cursor.itersize = 1
        cursor.execute(f"{QUESTION} AND day > %s GROUP BY region", (77, dt.date(2024, 2, 1)))
        shown["named cursor"] = list(cursor) == rows
    copied = io.StringIO()
    with connection.cursor() as cursor:
        literal = QUESTION.replace("%s", "77")
        cursor.copy_expert(f"COPY ({literal} AND day > DATE '2024-02-01' GROUP BY region) TO STDOUT CSV HEADER", copied)
    shown["copied"] = copied.getvalue().splitlines()[0]
    shown["receipt"] = any("this answer" in notice for notice in connection.notices)
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT * FROM visits")
    except psycopg2.Error as error:
        shown["rows are refused"] = error.pgcode
    connection.rollback()
    connection.set_session(readonly=True, autocommit=True)
    connection.close()
    return shown


def inspect_with_sqlalchemy() -> dict[str, Any]:
    engine = sa.create_engine(URL)
    inspector = sa.inspect(engine)
    metadata = sa.MetaData()
    metadata.reflect(engine, schema="public")
    shown = {
        "schemas": inspector.get_schema_names(),
        "tables": inspector.get_table_names(),
        "free tables": inspector.get_table_names("sfumato"),
        "columns": {each["name"]: str(each["type"]) for each in inspector.get_columns("visits")},
        "comment": inspector.get_columns("visits")[2]["comment"],
        "keys": [
            inspector.get_pk_constraint("visits")["constrained_columns"],
            inspector.get_foreign_keys("visits"),
            inspector.get_indexes("visits"),
            inspector.get_unique_constraints("visits"),
            inspector.get_check_constraints("visits"),
        ],
        "views": [inspector.get_view_names(), inspector.get_materialized_view_names(), inspector.get_sequence_names()],
        "reflected": {name: len(table.columns) for name, table in metadata.tables.items()},
        "exist": [inspector.has_table("visits"), inspector.has_table("nothing")],
    }
    engine.dispose()
    return shown


def ask_with_sqlalchemy() -> dict[str, Any]:
    engine = sa.create_engine(URL, connect_args={"options": OPTIONS})
    visits = sa.Table("visits", sa.MetaData(), autoload_with=engine, schema="public")
    question = sa.select(visits.c.region, sa.func.count().label("n")).where(visits.c.age < 77).group_by(visits.c.region)
    with engine.connect() as connection:
        rows = connection.execute(question.order_by(visits.c.region).limit(10)).all()
    literal = QUESTION.replace("%s", "77") + " GROUP BY region"
    shown = {
        "rows": [region for region, _ in rows],
        "read_sql": list(pd.read_sql(literal, engine).columns),
        "read_sql_table": list(pd.read_sql_table("budget", engine, schema="sfumato").columns),
    }
    engine.dispose()
    return shown


STEPS: dict[str, Callable[[], dict[str, Any]]] = {
    "psycopg2": ask_with_psycopg2,
    "inspect": inspect_with_sqlalchemy,
    "ask": ask_with_sqlalchemy,
}
print(json.dumps({name: STEPS[name]() for name in sys.argv[3:]}, default=str))
