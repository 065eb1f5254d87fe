"""A store keeps the lines: in one SQLite file, or in a schema of a PostgreSQL database that several curators share."""
