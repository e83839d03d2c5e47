"""Typed device, link and system specifications, each number with its source; and `roofline`, time of some work on a device.

`quantity` (one number in SI units, its source, its spread) -> `devices` (an accelerator or CPU) -> `systems` (many of them and their
network); `power` (watts from traffic and arithmetic).
"""
