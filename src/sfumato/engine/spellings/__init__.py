"""How each dialect writes what dialects write differently: one module for each."""
