"""Bibliography, tool table, taxonomy, coverage."""
