"""The spelling of each dialect: how it writes what dialects write differently."""
