"""Typed device, link and system specifications, each number with its source; and `roofline`, time of some work on a device."""
