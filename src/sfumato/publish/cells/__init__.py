"""Answer SQL from the cells of marginals: evaluate expressions per cell, and group cells."""
