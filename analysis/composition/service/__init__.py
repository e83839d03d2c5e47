"""How fast does a served model answer? Workload x hardware x software x plan -> time to first token and time per output token.

In the order in which data passes: `cases` (a measured or asked-for point), `settings`
(what the engine was started with), `operators` (a model under a plan as calls of the kernel library), `step_table` (their times on grids:
the time of any batch), `closed_loop` (the engine and its clients, compiled), `points` (all of it for a table of cases, nothing fitted),
`constants` (what is fitted, and on what), `answers` (a table of cases -> answers with intervals), `waterfall` (what an answer is made of),
`study` (scores by split), `freeze` (fits and keeps both). Requests one by one: `calibrated` (the same for requests that arrive by
themselves), `simulation` (what `serve`'s YAML asks for), `request_profile` (step times of a profiled GPU),
`request_answers` (what `serving.coupled` makes of them).
"""
