"""Each dialect has its spelling here: how it writes what dialects write differently."""
