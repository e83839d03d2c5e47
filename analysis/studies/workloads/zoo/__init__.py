"""Programs of the zoo beside published steps.

- `published_steps`: Which published training steps does the study score, and what does each device of them run?
- `shipped`: The StableHLO modules that ship with the project:
"""
