"""Lastro measures what virtualization costs a network function and what isolation saves."""

__version__ = "0.1.0"
