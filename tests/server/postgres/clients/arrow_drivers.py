"""ADBC, connectorx and polars: run by ``test_drivers`` in a process of its own; prints what each step showed."""

from __future__ import annotations

import json
import sys
from typing import Any

import adbc_driver_postgresql.dbapi as adbc
import connectorx
import polars as pl

ADDRESS: dict[str, Any] = json.loads(sys.argv[1])
QUESTION: str = sys.argv[2]
PLAIN = "postgresql://{user}:{password}@{host}:{port}/{dbname}".format(**ADDRESS)
PRICED = f"{PLAIN}?options=-c%20sfumato.epsilon%3D0.05"


def list_with_adbc() -> dict[str, Any]:
    with adbc.connect(PLAIN) as connection:
        (catalog,) = connection.adbc_get_objects(depth="columns", db_schema_filter="public").read_all().to_pylist()
        (tables,) = (each["db_schema_tables"] for each in catalog["catalog_db_schemas"])
        return {
            "tables": {each["table_name"]: sorted(c["column_name"] for c in each["table_columns"]) for each in tables},
            "schema": {field.name: str(field.type) for field in connection.adbc_get_table_schema("visits")},
        }


def ask() -> dict[str, Any]:
    literal = QUESTION.replace("%s", "77") + " GROUP BY region"
    with adbc.connect(PRICED) as connection, connection.cursor() as cursor:
        cursor.execute(literal)
        rows = cursor.fetch_arrow_table().to_pylist()
        cursor.execute("SELECT COUNT(*) AS n FROM visits WHERE age < $1", (77,))
        bound = cursor.fetchall()
    by_connectorx = [
        connectorx.read_sql(PRICED, literal, protocol=protocol, return_type="arrow").to_pylist()
        for protocol in ("binary", "csv", "cursor", "simple")
    ]
    by_comment = connectorx.read_sql(PLAIN, f"/* sfumato epsilon=0.05 */ {literal}", return_type="arrow").to_pylist()
    by_polars = pl.read_database_uri(literal, PRICED).to_dicts()
    return {
        "rows": rows,
        "bound": len(bound),
        "connectorx": [each == rows for each in by_connectorx],
        "comment": by_comment == rows,
        "polars": by_polars == rows,
    }


print(json.dumps({"list": list_with_adbc(), "ask": ask()}))
