"""The DuckDB driver: everything that knows how DuckDB opens, types and reads tables is in this package."""
