"""How long does one kernel take on one device? Measured tables, transferred laws, forests, the data sheet: one provider.

- `cases`: A file of kernels of today's GPUs answered:
- `gpus`: What the kernel models know of a GPU:
- `laws`: The law of a kernel's time, and its parameters on a GPU that was never timed
- `library`: Latency of one kernel on one GPU:
- `physics`: A first time and what bounds it:
- `profiler_trace`: A trace of PyTorch's profiler, each measured time beside the predicted one
- `trees`: Sums of regression trees as plain arrays:
- `work`: FLOP and bytes of one kernel:
- `fp32/`: Kernels in fp32 on GPUs of 2016 to 2022 (NeuSight's operators): physics times a learned correction
"""
