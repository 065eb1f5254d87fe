"""psqlodbc through pyodbc: run by ``test_drivers`` in a process of its own; prints what each step showed."""

from __future__ import annotations

import datetime as dt
import json
import sys
from typing import Any

import pyodbc

ADDRESS: dict[str, Any] = json.loads(sys.argv[1])
QUESTION: str = sys.argv[2]
WAYS = {
    "plain": "",
    "cursors": "UseDeclareFetch=1;Fetch=1;",
    "client-side": "UseServerSidePrepare=0;",
}


def connect(more: str) -> pyodbc.Connection:
    server = "SERVER={host};PORT={port};DATABASE={dbname};UID={user};PWD={password}".format(**ADDRESS)
    return pyodbc.connect(f"DRIVER=PostgreSQL Unicode;{server};ConnSettings=SET sfumato.epsilon='0.05';{more}")


def list_with(connection: pyodbc.Connection) -> dict[str, Any]:
    cursor = connection.cursor()
    return {
        "product": connection.getinfo(pyodbc.SQL_DBMS_NAME),
        "tables": [(each.table_schem, each.table_name, each.table_type) for each in cursor.tables(schema="public")],
        "columns": [(each.column_name, each.type_name) for each in cursor.columns(table="visits")],
        "keys": [
            len(list(cursor.primaryKeys("visits", schema="public"))),
            len(list(cursor.foreignKeys("visits", schema="public"))),
            len(list(cursor.statistics("visits", schema="public"))),
            len(list(cursor.rowIdColumns("visits", schema="public"))),
        ],
        "types": len(list(cursor.getTypeInfo())) > 20,
        "schemas": [each[1] for each in cursor.tables(catalog="", schema="%", table="")],
        "procedures": len(list(cursor.procedureColumns())) > 100,
    }


def ask(connection: pyodbc.Connection) -> dict[str, Any]:
    cursor = connection.cursor()
    grouped = f"{QUESTION.replace('%s', '?')} AND day < ? GROUP BY region"
    rows = [tuple(each) for each in cursor.execute(grouped, 77, dt.datetime(2024, 6, 1))]
    types = [column[1].__name__ for column in cursor.description]
    escaped = (
        "SELECT {fn YEAR(day)} AS y, COUNT(*) AS n FROM visits WHERE day < {d '2024-06-01'} GROUP BY {fn YEAR(day)}"
    )
    years = [each[0] for each in cursor.execute(escaped)]
    connection.rollback()
    try:
        cursor.execute("SELECT * FROM visits")
        state = ""
    except pyodbc.Error as error:
        state = error.args[0]
    return {"regions": [row[0] for row in rows], "types": types, "years": years, "rows are refused": state}


def run() -> dict[str, Any]:
    shown: dict[str, Any] = {"list": list_with(connect(""))}
    for way in sys.argv[3:]:
        connection = connect(WAYS[way])
        shown[way] = ask(connection)
        connection.close()
    return shown


print(json.dumps(run()))
