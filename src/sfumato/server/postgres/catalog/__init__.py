"""The catalog that PostgreSQL clients read (pg_catalog, information_schema), from the policy alone."""

from sfumato.server.postgres.catalog.answering import Catalog
from sfumato.server.postgres.catalog.types import CatalogColumn, CatalogRows

__all__ = ["Catalog", "CatalogColumn", "CatalogRows"]
