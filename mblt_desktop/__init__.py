"""MBLT Desktop: the window and the command line over `runtime`."""

__version__ = "0.1.0"
