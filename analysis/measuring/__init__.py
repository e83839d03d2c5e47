"""The measurement kit: how long do operators and whole models take on the devices of this machine, and how noisy was it?

`suites` (which shapes), of `operators` and `graphs` (whole models) -> `campaign` (several `devices` in turn, with what `machine` is) ->
`session` -> `worker` (a device in its own process, by `runtimes`; `peaks` of the CPU) -> `timing` (repeats and spread) -> `folder` (what
was written, read). Then `compare` (two measurements) and `transfer` (devices predicted from few samples of others).
"""
