"""The PostgreSQL wire protocol, so that psql and BI tools ask the curator: a second interface beside REST."""
