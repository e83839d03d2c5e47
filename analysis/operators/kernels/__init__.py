"""Kernels of today's GPUs by number type, measured GPUs and others: GEMM, attention, experts, passes over memory, collectives.

In the order in which data passes through them: `wheel` reads the kernel tables out of the package's wheel without running it and
says what each is; `gpus` is what a data sheet gives; `work` the FLOP and bytes of each operator; `physics` its tiles, waves and
rooflines; `laws` the law of a time and its parameters on a GPU never timed; `trees` the learned correction; `library` the one door for
everybody else, whose answer is a `latency`; `splits` (written down before the first score), `fit` and `evaluate` make the committed
parameters, which `store` keeps, and the frozen scores; `samples` is what of the held-out rows is committed; `cases` answers a file.
"""
