"""FasterTransformer: static batching. A batch runs to completion before the next begins.

Each request reserves the cache of the longest possible one and keeps it until the whole batch is complete; complete requests leave the
later steps. (VIDUR 7d47513 gives back only the reservations of the requests in a batch's last step. The schedule is the same as long as
the lost ones are not needed, as in the recorded runs; here nothing is lost.)

Source: VIDUR 7d47513 as recorded in data/recorded/vidur.
"""

from __future__ import annotations

from analysis.compiled import inner
from analysis.serving.memory import admit_whole
from analysis.serving.state import Replica


@inner(error_model="numpy", _nrt=False)
def schedule(replica: Replica) -> int:
    """Fill the next batch; returns how many requests are in it."""
    state = replica.state
    size = state.running
    if size > 0:
        for k in range(size):
            replica.batch[k], replica.tokens[k] = replica.running[k], 1
        state.running = 0
        return size
    return admit_whole(replica, size)
