"""The interface over HTTP is made of routes, and describes itself."""
