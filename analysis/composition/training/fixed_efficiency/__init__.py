"""Baseline of the notebook `training_validation`: one share of the peak for all products of a GPU, fitted on runs of 2021.

It answers no question of a user. `plan` (what is laid out how) -> `block` (kernels of a transformer block) -> `kernel_time` (their seconds)
and `communication` (collectives, also of the study of published steps) -> `step` (time of a step), `memory` (what a GPU holds).
`published` and `published_other` are measured steps, which `sources` reads too; `calibrate` fits efficiencies to them and scores them.
"""
