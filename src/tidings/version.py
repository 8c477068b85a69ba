"""The version of Tidings."""

__version__ = "0.2.0"
