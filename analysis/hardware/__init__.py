"""Typed device, link and system specifications, each number with its source; and `roofline`, time of some work on a device.

- `devices`: What one accelerator, or one CPU, offers:
- `own`: A machine of the user's own:
- `quantity`: One specified number:
- `roofline`: How long does work take on a device at least, and what bounds it?
- `systems`: What a machine of many accelerators is made of:
"""
