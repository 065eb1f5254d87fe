"""Post-processing of noisy rows: expressions, filters, ranks and sums, which cost no privacy."""
