"""The library's version, at the bottom of the import order so that files can carry it."""

__version__ = "0.1.0.dev0"
