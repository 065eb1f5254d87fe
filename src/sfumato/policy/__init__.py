"""A policy says what is public about the tables, whom we protect, and what the budget is."""

from sfumato.policy.domains import Domain, ListColumn, Type, Value
from sfumato.policy.toml_files import read
from sfumato.policy.values import ROW, DatabaseTable, File, InMemory, Policy, Source, Table, Via

__all__ = [
    "ROW",
    "DatabaseTable",
    "Domain",
    "File",
    "InMemory",
    "ListColumn",
    "Policy",
    "Source",
    "Table",
    "Type",
    "Value",
    "Via",
    "read",
]
