"""What does the out-of-order core hold between two cycles: its queues, tables and signals, as numpy records.

Every structure has a fixed largest size, so that one compiled loop serves every design; the design's own sizes are values in the records.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Record = Any
"""One numpy record of a type below, as the compiled functions see it."""

WINDOW = 1024
"""Sequence numbers in flight at most, squashed ones included; fetch waits when they are used up."""
WINDOW_MASK = WINDOW - 1
MAX_ROB = 1024
MAX_LSQ = 512
MAX_WIDTH = 16
MAX_IQ = 512
MAX_MSHR = 64
MAX_TARGETS = 4096
MAX_REQUESTS = 64
EVENT_HORIZON = 16384
MAX_EVENTS = 4096
EXECUTE_HORIZON = 128
EXECUTE_SLOTS = 64
WRITEBACK_HORIZON = 64

LSQ_MASK = MAX_LSQ - 1
ROB_MASK = MAX_ROB - 1
EXECUTE_MASK = EXECUTE_HORIZON - 1
WRITEBACK_MASK = WRITEBACK_HORIZON - 1

# One in-flight instruction. `place` is its place in the trace, -1 on the wrong path.
INSTRUCTION = np.dtype(
    [
        ("seq", "i8"),
        ("address", "i8"),
        ("predicted", "i8"),
        ("actual", "i8"),
        ("previous", "i8"),
        ("producer", "i8", (3,)),
        ("place", "i4"),
        ("row", "i4"),
        ("waiters", "i4"),
        ("next_waiter", "i4", (4,)),
        ("load_index", "i4"),
        ("store_index", "i4"),
        ("memory_waiters", "i4"),
        ("opclass", "i1"),
        ("unit", "i1"),
        ("pending", "i1"),
        ("memory_pending", "i1"),
        ("is_load", "i1"),
        ("is_store", "i1"),
        ("is_control", "i1"),
        ("serial", "i1"),
        ("predicted_taken", "i1"),
        ("squashed", "i1"),
        ("renamed", "i1"),
        ("in_queue", "i1"),
        ("issued", "i1"),
        ("executed", "i1"),
        ("written", "i1"),
        ("can_commit", "i1"),
        ("address_valid", "i1"),
        ("destination", "i1"),
        ("size", "i1"),
        ("cleared", "i1"),
    ],
    align=True,
)

# One row of the static code table.
CODE = np.dtype(
    [
        ("pc", "i8"),
        ("target", "i8"),
        ("last_address", "i8"),
        ("stride", "i8"),
        ("speculative_address", "i8"),
        ("wrong_path_met", "i8"),
        ("source", "i1", (3,)),
        ("destination", "i1"),
        ("opclass", "i1"),
        ("size", "i1"),
        ("length", "i1"),
        ("last_taken", "i1"),
    ],
    align=True,
)

# Signals that a stage sends back, read by the others one cycle later.
(
    SQUASH,
    SQUASH_SEQ,
    SQUASH_PC,
    SQUASH_BRANCH,
    SQUASH_TAKEN,
    SQUASH_TRACE,
    ROB_SQUASHING,
    DONE_SEQ,
    NONSPECULATIVE,
    FREE_ROB_USED,
    FREE_ROB,
    ROB_EMPTY,
    IEW_BLOCK,
    IEW_UNBLOCK,
    DISPATCHED,
    DISPATCHED_LOADS,
    DISPATCHED_STORES,
    FREE_TOLD,
    FREE_IQ,
    FREE_LQ,
    FREE_SQ,
    RENAME_BLOCK,
    RENAME_UNBLOCK,
    DECODE_BLOCK,
    DECODE_UNBLOCK,
    DECODE_SQUASH,
    DECODE_SQUASH_SEQ,
    DECODE_SQUASH_PC,
    DECODE_SQUASH_TAKEN,
    DECODE_SQUASH_TRACE,
    REDIRECT,
    REDIRECT_SEQ,
    REDIRECT_PC,
    REDIRECT_BRANCH,
    REDIRECT_TAKEN,
    REDIRECT_TRACE,
    REDIRECT_INCLUDE,
) = range(37)
SIGNALS = 37

# Status of a stage.
RUNNING, BLOCKED, UNBLOCKING, SQUASHING, SERIALIZING, WAIT_CACHE, CACHE_DONE, WAIT_RETRY, NO_INSTRUCTIONS = range(9)

# Events: the memory system's answers.
(
    EVENT_LOAD,
    EVENT_STORE,
    EVENT_DATA_FILL,
    EVENT_CODE_FILL,
    EVENT_FETCH,
    EVENT_RETRY,
    EVENT_CODE_RETRY,
    EVENT_L1_SEND,
    EVENT_L2_SEND,
    EVENT_L2_ANSWER,
    EVENT_DRAM_NEXT,
    EVENT_L2_FILL,
) = range(12)
FREE, ON_THE_WAY, QUEUED, SERVED = range(4)

UNITS = 6
INT_ALU_UNIT, INT_MULT_UNIT, FLOAT_ALU_UNIT, FLOAT_MULT_UNIT, MEMORY_UNIT, NO_UNIT = range(UNITS)

# Everything else about the core.
MAX_CODE = 1 << 20
"""Slots of two bytes of static code."""
CODE_TABLE = np.dtype([("rows", CODE, (MAX_CODE,))], align=True)

CORE = np.dtype(
    [
        ("window", INSTRUCTION, (WINDOW,)),
        # what the design says
        ("fetch_width", "i8"), ("decode_width", "i8"), ("rename_width", "i8"), ("dispatch_width", "i8"), ("issue_width", "i8"),
        ("writeback_width", "i8"), ("commit_width", "i8"), ("squash_width", "i8"), ("fetch_queue_entries", "i8"), ("fetch_bytes", "i8"),
        ("rob_entries", "i8"), ("iq_entries", "i8"), ("lq_entries", "i8"), ("sq_entries", "i8"), ("free_int", "i8"), ("free_float", "i8"),
        ("dependence_shift", "i8"), ("store_set_period", "i8"), ("perfect_branches", "i8"), ("wrong_path", "i8"),
        ("memory_speculation", "i8"), ("forwarding_cycles", "i8"),
        ("unit_count", "i8", (UNITS,)), ("latency", "i8", (32,)), ("pipelined", "i8", (32,)), ("unit_of", "i8", (32,)),
        # time and signals
        ("cycle", "i8"), ("active", "i8"), ("signal", "i8", (2, SIGNALS)), ("base_pc", "i8"), ("map_size", "i8"), ("code_distance", "i8"),
        # fetch
        ("fetch_status", "i8"), ("fetch_pc", "i8"), ("fetch_trace", "i8"), ("on_wrong_path", "i8"), ("wrong_paths", "i8"),
        ("buffer_pc", "i8"), ("buffer_valid", "i8"),
        ("fetch_request", "i8"), ("next_seq", "i8"), ("fetch_stalled", "i8"), ("fetch_queue", "i4", (WINDOW,)),
        ("fetch_queue_head", "i8"),
        ("fetch_queue_tail", "i8"),
        # pipeline registers, by cycle modulo 8: fetch to decode, decode to rename, rename to dispatch and to the ROB
        ("to_decode", "i4", (8, MAX_WIDTH)), ("to_decode_n", "i8", (8,)), ("to_rename", "i4", (8, MAX_WIDTH)),
        ("to_rename_n", "i8", (8,)),
        ("to_dispatch", "i4", (8, MAX_WIDTH)), ("to_dispatch_n", "i8", (8,)),
        # decode
        ("decode_status", "i8"), ("decode_stalled", "i8"), ("decode_skid", "i4", (64,)), ("decode_skid_n", "i8"),
        # rename
        ("rename_status", "i8"), ("rename_stalled", "i8"), ("rename_skid", "i4", (64,)), ("rename_skid_n", "i8"), ("in_progress", "i8"),
        ("loads_in_progress", "i8"), ("stores_in_progress", "i8"), ("seen_free_rob", "i8"), ("seen_free_iq", "i8"),
        ("seen_free_lq", "i8"),
        ("seen_free_sq", "i8"), ("seen_empty_rob", "i8"), ("serialize_next", "i8"), ("map", "i8", (64,)), ("freeing_int", "i8"),
        ("freeing_float", "i8"), ("freed_until", "i8"),
        # dispatch, issue, execute, write back
        ("dispatch_status", "i8"), ("dispatch_skid", "i4", (64,)), ("dispatch_skid_n", "i8"), ("free_iq", "i8"),
        ("ready", "i8", (MAX_IQ,)), ("ready_n", "i8"), ("blocked_loads", "i8", (MAX_LSQ,)), ("blocked_loads_n", "i8"),
        ("retry_loads", "i8", (MAX_LSQ,)), ("retry_loads_n", "i8"), ("replay_loads", "i8", (MAX_LSQ,)), ("replay_loads_n", "i8"),
        ("stalled_load", "i8"), ("stalling_store", "i8"), ("unit_busy", "i8", (UNITS, 16)),
        ("execute", "i4", (EXECUTE_HORIZON, EXECUTE_SLOTS)), ("execute_n", "i8", (EXECUTE_HORIZON,)),
        ("writeback", "i4", (WRITEBACK_HORIZON, MAX_WIDTH)), ("writeback_n", "i8", (WRITEBACK_HORIZON,)), ("writeback_ahead", "i8"),
        ("execute_long", "i8"), ("queues_changed", "i8"), ("lsq_changed", "i8"),
        # load and store queues: sequence numbers, by a count that only grows
        ("lq", "i8", (MAX_LSQ,)), ("lq_head", "i8"), ("lq_tail", "i8"), ("sq", "i8", (MAX_LSQ,)), ("sq_head", "i8"), ("sq_send", "i8"),
        ("sq_tail", "i8"), ("sq_committed", "i8"), ("sq_done", "i1", (MAX_LSQ,)), ("store_blocked", "i8"), ("stores_to_write", "i8"),
        ("cache_blocked", "i8"), ("executing", "i8"), ("unit_used", "i8", (UNITS,)), ("busy_until", "i8"), ("committed_stores", "i8"),
        # memory dependence prediction
        ("ssit", "i4", (1024,)), ("lfst", "i8", (1024,)), ("store_set_accesses", "i8"),
        # reorder buffer
        ("rob", "i4", (MAX_ROB,)), ("rob_head", "i8"), ("rob_tail", "i8"), ("commit_status", "i8"), ("squash_at", "i8"),
        ("squash_seq", "i8"),
        ("youngest_seq", "i8"), ("oldest_seq", "i8"), ("committed", "i8"),
        # counters
        ("branch_mispredictions", "i8"), ("branches", "i8"), ("memory_order_violations", "i8"), ("squashed", "i8"),
        ("forwarded_loads", "i8"),
        ("decode_redirects", "i8"),
    ],
    align=True,
)  # fmt: skip

# Caches: 0 is L1I, 1 is L1D, 2 is L2. The lines of the three lie behind one another in one array.
LINE = np.dtype([("tag", "i8"), ("last", "i8"), ("ready", "i8"), ("dirty", "i8")], align=True)
BANKS = 64
RANKS = 8
ACTIVATIONS = 8
DRAM_WRITES = 256
SEND_QUEUE = 256
MAX_LINES = 1 << 20
MEMORY = np.dtype(
    [
        ("lines", LINE, (MAX_LINES,)),
        ("line_bits", "i8"), ("sets", "i8", (3,)), ("ways", "i8", (3,)), ("first_line", "i8", (3,)), ("tag_cycles", "i8", (3,)),
        ("data_cycles", "i8", (3,)), ("response_cycles", "i8", (3,)), ("perfect", "i8", (3,)), ("accesses", "i8", (3,)),
        ("misses", "i8", (3,)),
        ("writebacks", "i8", (3,)), ("mshrs", "i8", (3,)), ("targets_per_mshr", "i8", (3,)),
        ("prefetch_degree", "i8"),
        ("mshr_line", "i8", (2, MAX_MSHR)), ("mshr_used", "i8", (2,)), ("mshr_target", "i4", (2, MAX_MSHR)),
        ("mshr_targets", "i8", (2, MAX_MSHR)),
        ("mshr_offset", "i8", (2, MAX_MSHR)),
        ("blocked", "i8", (3,)), ("refused", "i8", (3,)),
        ("target_next", "i4", (MAX_TARGETS,)), ("target_kind", "i8", (MAX_TARGETS,)), ("target_argument", "i8", (MAX_TARGETS,)),
        ("target_offset", "i8", (MAX_TARGETS,)), ("target_write", "i8", (MAX_TARGETS,)), ("target_free", "i4"),
        ("event_head", "i4", (EVENT_HORIZON,)), ("event_next", "i4", (MAX_EVENTS,)), ("event_kind", "i4", (MAX_EVENTS,)),
        ("event_argument", "i8", (MAX_EVENTS,)), ("event_free", "i4"), ("events", "i8"),
        # what waits to be sent by L1I, L1D, L2: misses, then lines that were evicted; ready from a cycle on
        ("miss_queue", "i8", (3, SEND_QUEUE)), ("miss_ready", "i8", (3, SEND_QUEUE)), ("miss_n", "i8", (3,)),
        ("write_line", "i8", (3, SEND_QUEUE)), ("write_ready", "i8", (3, SEND_QUEUE)), ("write_dirty", "i1", (3, SEND_QUEUE)),
        ("write_n", "i8", (3,)), ("write_buffers", "i8", (3,)), ("send_at", "i8", (3,)), ("waiting", "i8", (3,)),
        # answers: cycles whose place at the port is taken; whether a line comes modified from L2
        ("answered", "i8", (2, 64)), ("mshr_modified", "i1", (2, MAX_MSHR)),
        # L2 bus and memory bus
        ("cycle_ps", "i8"), ("l2_bus_request", "i8"), ("l2_bus_response", "i8"), ("l2_bus_bytes", "i8"), ("bus_ps", "i8"),
        ("bus_request", "i8"), ("bus_response", "i8"), ("bus_bytes", "i8"), ("l2_bus_free", "i8"), ("l2_answer_free", "i8", (2,)),
        ("l2_answer_last", "i8"), ("bus_free_ps", "i8"), ("bus_answer_free_ps", "i8"),
        # DRAM, in ps
        ("t_rcd", "i8"), ("t_cl", "i8"), ("t_rp", "i8"), ("t_ras", "i8"), ("t_burst", "i8"), ("t_rtp", "i8"), ("t_refi", "i8"),
        ("t_rfc", "i8"), ("t_rrd", "i8"), ("t_wr", "i8"), ("t_wtr", "i8"), ("t_rtw", "i8"), ("t_cs", "i8"), ("t_xaw", "i8"),
        ("t_front", "i8"), ("t_back", "i8"), ("row_bits", "i8"), ("bank_bits", "i8"), ("banks_per_rank", "i8"), ("ranks", "i8"),
        ("row_accesses_limit", "i8"), ("activation_limit", "i8"), ("dram_write_entries", "i8"), ("write_high", "i8"), ("write_low", "i8"),
        ("writes_per_switch", "i8"), ("reads_per_switch", "i8"),
        ("open_row", "i8", (BANKS,)), ("row_accesses", "i8", (BANKS,)), ("activate_at", "i8", (BANKS,)), ("read_at", "i8", (BANKS,)),
        ("write_at", "i8", (BANKS,)), ("precharge_at", "i8", (BANKS,)), ("activations", "i8", (RANKS, ACTIVATIONS)),
        ("channel_at", "i8"), ("next_refresh", "i8", (RANKS,)), ("rank_rests", "i8", (RANKS,)),
        ("rank_ready", "i8", (RANKS,)), ("rank_closed", "i8", (RANKS,)), ("active_rank", "i8"),
        ("dram_reads", "i8"), ("dram_writes", "i8"), ("row_hits", "i8"),
        ("dram_scheduled", "i8"), ("dram_next_ps", "i8"), ("request_order", "i8"), ("reads_queued", "i8"),
        ("bus_writes", "i8"), ("bus_writes_next", "i8"), ("reads_this_time", "i8"), ("writes_this_time", "i8"),
        ("dram_write_line", "i8", (DRAM_WRITES,)), ("dram_write_n", "i8"), ("dram_write_refused", "i8"),
        # misses of L2: where they are, when they came, which MSHRs of L1 wait (cache * MAX_MSHR + slot)
        ("request_state", "i8", (MAX_REQUESTS,)), ("request_line", "i8", (MAX_REQUESTS,)), ("request_count", "i8", (MAX_REQUESTS,)),
        ("request_waiters", "i8", (MAX_REQUESTS,)), ("request_waiter", "i8", (MAX_REQUESTS, 4)), ("request_header", "i8", (MAX_REQUESTS,)),
        ("requests_used", "i8"),
    ],
    align=True,
)  # fmt: skip

MAX_TABLE = 65536
HISTORY = 4096
BRANCH_HISTORY = np.dtype(
    [
        ("seq", "i8"), ("pc", "i8"), ("target", "i8"), ("global_history", "i8"), ("local_index", "i8"), ("local_history", "i8"),
        ("indirect_history", "i8"), ("indirect_set", "i8"),
        ("ras_top", "i8"), ("ras_entry", "i8"), ("kind", "i1"), ("local_taken", "i1"),
        ("global_taken", "i1"), ("taken", "i1"), ("btb_hit", "i1"), ("ras_action", "i1"),
    ],
    align=True,
)  # fmt: skip

PREDICTOR = np.dtype(
    [
        ("history", BRANCH_HISTORY, (HISTORY,)),
        ("local_mask", "i8"), ("local_history_mask", "i8"), ("global_mask", "i8"), ("btb_mask", "i8"),
        ("ras_entries", "i8"),
        ("local_counter", "u1", (MAX_TABLE,)), ("local_history", "i4", (MAX_TABLE,)), ("global_counter", "u1", (MAX_TABLE,)),
        ("choice_counter", "u1", (MAX_TABLE,)), ("global_history", "i8"),
        ("btb_word", "i8", (MAX_TABLE,)), ("btb_target", "i8", (MAX_TABLE,)), ("ras", "i8", (256,)), ("ras_top", "i8"),
        ("indirect_history", "i8"), ("indirect_tag", "i8", (256, 2)), ("indirect_target", "i8", (256, 2)), ("path", "i8", (1024,)),
        ("path_n", "i8"), ("random", "u4", (31,)), ("random_at", "i8"), ("head", "i8"), ("tail", "i8"),
    ],
    align=True,
)  # fmt: skip
