"""The version of this software is printed in every receipt."""

__version__ = "0.1.0"
