"""Studies of serving, each a table of a notebook.

`load` (requests, rates and schedulers of all of them), `table7` (the survey's table again), `cache` (KV memory), `capacity_search`
(requests a second within limits), `energy` (J a token), `lengths` and `measured` (step times compared with systems that others measured),
`agreement` (with VIDUR's own runs).
"""
