"""This is the driver for PostgreSQL: everything that knows how PostgreSQL opens, types and reads tables is here."""
