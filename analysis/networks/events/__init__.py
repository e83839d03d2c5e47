"""Collectives message by message: `simulation` (links, queues), `plan` (who sends what when), `run` (the compiled loop)."""
