"""From operator to model to system, with an error budget."""
