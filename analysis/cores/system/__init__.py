"""What does a deployed system need around the model? From the core to the cloud:

- `collector`: a FIFO at retirement and what it stalls; `processor_trace`: how much Intel PT would write in its place.
- `driver`: which epochs are sampled and when their inference runs; `epoch_signatures`: which epochs ran the same code;
  `verdict_sampling`: how many epochs a verdict between two designs takes.
- `rank`: cycles of a trace on each design by a trained model, and how sure the order is.
- `sealed`: traces encrypted at rest; `repository`: signed models; `telemetry`: what leaves the machine.
"""
