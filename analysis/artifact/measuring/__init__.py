"""The measurement kit: how long do operators and whole models take on the devices of this machine, and how noisy was it?

- `campaign`: Measure a suite on several devices in turn, and keep what was measured with how noisy it was
- `devices`: What counts as a device here:
- `folder`: Reading what the kit wrote
- `graphs`: Whole models as graphs of the operators that are also measured alone:
- `machine`: What the machine is and what ran on it:
- `operators`: What is measured:
- `peaks`: What can this CPU do at most:
- `session`: Talking to a device's process:
- `suites`: Which shapes are measured:
- `timing`: How long does one call take, and how far do repeated measurements spread?
- `worker`: One device in a process of its own:
- `runtimes/`: What runs the operators: `jax_runtime`, `onnx_runtime`, `numpy_runtime`; `fill` makes their inputs
"""
