"""A proposal is whatever may be bought: it is explained, forecast and priced for nothing; only a release spends."""
