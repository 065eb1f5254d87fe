"""The interface over HTTP: its routes, and the page that describes them."""
