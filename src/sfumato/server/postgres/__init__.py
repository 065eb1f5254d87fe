"""The PostgreSQL wire protocol: a second skin on the counter that REST uses."""
