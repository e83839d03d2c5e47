"""Which scheduler fills the next batch? By its code in `names`."""

from __future__ import annotations

from analysis.compiled import inner
from analysis.serving.schedulers import faster_transformer, lightllm, orca, sarathi, vllm, vllm_v1
from analysis.serving.schedulers.names import SCHEDULERS
from analysis.serving.state import Replica

FASTER_TRANSFORMER, ORCA, VLLM = SCHEDULERS["faster_transformer"].code, SCHEDULERS["orca"].code, SCHEDULERS["vllm"].code
SARATHI, LIGHTLLM = SCHEDULERS["sarathi"].code, SCHEDULERS["lightllm"].code

_faster_transformer, _orca, _vllm = faster_transformer.schedule, orca.schedule, vllm.schedule
_sarathi, _lightllm, _vllm_v1 = sarathi.schedule, lightllm.schedule, vllm_v1.schedule


@inner(error_model="numpy", _nrt=False)
def schedule(replica: Replica) -> int:
    """Let the replica's scheduler fill the next batch; returns how many requests are in it."""
    scheduler = replica.limits.scheduler
    if scheduler == VLLM:
        return _vllm(replica)
    if scheduler == SARATHI:
        return _sarathi(replica)
    if scheduler == ORCA:
        return _orca(replica)
    if scheduler == FASTER_TRANSFORMER:
        return _faster_transformer(replica)
    if scheduler == LIGHTLLM:
        return _lightllm(replica)
    return _vllm_v1(replica)
