"""From operator to model to system, with an error budget.

- One program on a device: `device_rates` (peak of a type), `efficiencies` (shares of peak), `study_fusion` (kernels), `device_work`
  (operations that XLA counts otherwise), `systolic_device` and `loopnest_device` (products on a TPU), `collective_time` -> `predict`
  (seconds by fidelity) -> `predict_report`, `predict_trace` (Chakra).
- The study of published steps: `study_fusion`, `study_step` (seconds by fidelity), `study_score` (errors and order of devices).
- What parts say of the whole: `errors` (the law), `gap` (measured whole against parts), `serving_gap` (the same of served models).
- Predictors of a row, each from cases to answers with intervals: `batch`, `training`, `service`; `case_files` answers a file with one,
  `ignored` asks each whether it uses all that a question says,
  `recommend` searches plans, `energy` adds joules, `sources` other people's runs, `suite` all measurements in one schema.
"""
