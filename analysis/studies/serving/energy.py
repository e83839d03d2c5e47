"""How many joules, and how much money, does a token of output take? A model, not a measurement.

    energy = limit x (base x busy time + memory x bytes / bandwidth + compute x operations / peak + idle share x idle time), for each device

The busy part is the power model of `hardware.power` (constants measured on H100 and B200), summed over batches, at most limit x busy time:
each batch reads the weights once, each token takes two operations a weight. Traffic of the KV cache is left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from analysis.errors import InputError
from analysis.hardware.devices import Device
from analysis.serving.points.power import load
from analysis.serving.simulate import Result

MILLION = 1e6
SECONDS_AN_HOUR = 3600.0


@dataclass(frozen=True)
class Energy:
    """Energy of a run.

    Attributes:
        busy_j, idle_j: joules while batches run, and between them, all devices.
        output_token_j: joules a token of output.
        device_s: device-seconds, busy or not.
        output_tokens: tokens generated.
    """

    busy_j: float
    idle_j: float
    output_token_j: float
    device_s: float
    output_tokens: int

    def cost_per_million_tokens(self, device_hour: float) -> float:
        """Price of a million tokens of output, in the currency of `device_hour`, the price of a device for an hour."""
        return device_hour * self.device_s / SECONDS_AN_HOUR * MILLION / self.output_tokens


def energy(result: Result, device: Device, parameters: float, devices_per_replica: int = 1, idle_share: float = 0.2) -> Energy:
    """Energy of a run, by the module's formula.

    Args:
        result: a run with at least one request.
        device: its data sheet gives the power limit, the bandwidth and the 16-bit rate.
        parameters: weights that a token is multiplied by, in 16 bits (count).
        devices_per_replica: tensor-parallel devices of each replica.
        idle_share: power between batches over the limit; an assumption, 0 to 1.
    Raises:
        InputError: no power limit is known, or no request was served.
    """
    if device.tdp_w is None:
        raise InputError(f"no power limit of {device.name} is known", key="device")
    if not 0 <= idle_share <= 1:
        raise InputError(f"expected a share from 0 to 1, got {idle_share}", key="idle_share")
    if not len(result.requests):
        raise InputError("a run without requests has no energy a token", key="requests")
    power = load()
    busy_s = float(result.replicas["busy_s"].sum()) * devices_per_replica
    device_s = result.makespan_s * len(result.replicas) * devices_per_replica
    memory_s = 2.0 * parameters * float(result.replicas["batches"].sum()) / device.memory_bandwidth_bytes_per_s
    compute_s = 2.0 * parameters * float(result.replicas["tokens"].sum()) / device.peak["bf16"].value
    busy_j = device.tdp_w * busy_s * float(power.share(memory_s / busy_s, compute_s / busy_s))
    idle_j = device.tdp_w * idle_share * max(0.0, device_s - busy_s)
    tokens = int(result.requests.decode_tokens.sum())
    return Energy(busy_j, idle_j, (busy_j + idle_j) / tokens, device_s, tokens)
