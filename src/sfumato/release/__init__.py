"""The one door: prepare (no data), then charge, read, add noise, write down, answer."""
