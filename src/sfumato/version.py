"""The version of this software: printed in every receipt."""

__version__ = "0.1.0"
