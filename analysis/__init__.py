"""Models, statistics and bookkeeping behind the book: data in, data out, nothing read from the network."""
