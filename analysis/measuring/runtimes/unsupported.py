"""A device that cannot run an operator says so; that is a gap in the table, not a failure."""

from __future__ import annotations


class Unsupported(Exception):
    """The runtime, data type or device has no such operator; the message says why."""
