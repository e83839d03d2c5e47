"""Typed device, link and system specifications, each number with its source."""
