"""The catalog that PostgreSQL clients read (pg_catalog, information_schema), from the policy alone."""

from sfumato.server.postgres.catalog.answering import PolicyCatalog
from sfumato.server.postgres.catalog.relations import CatalogColumn, CatalogRows

__all__ = ["CatalogColumn", "CatalogRows", "PolicyCatalog"]
