"""What is public about the tables, whom we protect, and the budget."""

from sfumato.policy.domains import Domain, Type, Value
from sfumato.policy.reading import read
from sfumato.policy.values import ROW, Policy, Table

__all__ = ["ROW", "Domain", "Policy", "Table", "Type", "Value", "read"]
