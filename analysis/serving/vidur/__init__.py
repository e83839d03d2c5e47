"""VIDUR's own files: `config` reads its configuration, `replay` runs a recorded case again."""
