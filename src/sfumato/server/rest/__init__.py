"""The REST interface: its routes and their OpenAPI description."""
