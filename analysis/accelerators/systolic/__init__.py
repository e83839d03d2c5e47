"""How long does a matrix product take on a systolic array, and what does it move?

- `array`: How many cycles does a systolic array need for a matrix product, and how often does it touch its SRAMs?
- `cases`: What does each row of a case file cost on its systolic array, by SCALE-Sim's definitions?
- `files`: Reads SCALE-Sim's own inputs:
"""
