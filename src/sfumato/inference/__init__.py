"""Statistical inference from released numbers: estimates, intervals and tests that account for the noise."""
