"""The MariaDB driver: everything that knows how MariaDB opens, types and reads tables is in this package."""
