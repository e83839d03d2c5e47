"""Step time and memory of parallel training.

`plan` (what is trained, on what, laid out how) -> `block` (kernels of a transformer block) -> `kernel_time` (their seconds) and
`communication` (collectives) -> `step` (time of a step), `memory` (what a GPU holds) -> `report`;
`search` goes through all plans of a cluster, `sensitivity` varies what a step rests on. `published` and `published_other` are
measured steps; `calibrate` fits efficiencies to them, `freeze` keeps the fit on the SC'21 rows and its errors elsewhere.
"""
