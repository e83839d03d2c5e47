"""The assessment protocol: evidence, grade, score, sensitivity."""
