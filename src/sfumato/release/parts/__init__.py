"""A question falls into parts, each of which becomes measurements, with its share of the price and its scale."""
