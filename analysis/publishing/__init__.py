"""Notebook runner, figures and tables with provenance, numbers for prose, the book."""
