"""CPU cores: programs, instruction traces, out-of-order timing, the NeuroScalar model, Neutrino, sampling."""
