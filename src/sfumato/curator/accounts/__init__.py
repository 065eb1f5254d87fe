"""A policy has an account: where it stands, whom it asks to pay, and what its periods have left."""
