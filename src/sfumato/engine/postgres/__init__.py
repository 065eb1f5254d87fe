"""The PostgreSQL driver: everything that knows how PostgreSQL opens, types and reads tables is in this package."""
