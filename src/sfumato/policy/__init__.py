"""Policies: whom a curator protects, the budget, and what is publicly known about the tables."""

from sfumato.policy.domains import Domain, ListColumn, Type, Value
from sfumato.policy.policies import ROW, Policy, Table, Via
from sfumato.policy.public_faces import PublicFace
from sfumato.policy.table_sources import (
    DatabaseTable,
    File,
    InMemory,
    MariaDBTable,
    PostgresTable,
    Source,
    SparkFrame,
    SparkTable,
)
from sfumato.policy.toml_files import read

__all__ = [
    "ROW",
    "DatabaseTable",
    "Domain",
    "File",
    "InMemory",
    "ListColumn",
    "MariaDBTable",
    "Policy",
    "PostgresTable",
    "PublicFace",
    "Source",
    "SparkFrame",
    "SparkTable",
    "Table",
    "Type",
    "Value",
    "Via",
    "read",
]
