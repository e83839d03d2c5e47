"""Stands for `yaml`, `difflib`, `analysis.tables` and `analysis.documents` in the page, which reads no files; what is imported of them
is here and does nothing."""

# mypy: ignore-errors


def read_csv(*given, **options):
    """There is no file to read."""
    raise NotImplementedError


numbers = numeric = safe_dump = is_file = read_json = get_close_matches = read_csv
