"""Device, memory and link specifications, each number with its source."""
