"""This is the driver for DuckDB: everything that knows how DuckDB opens, types and reads tables is in this package."""
