"""How do errors compose from kernels to models?

- `errors`: What does the error of each kernel make of the error of the whole model?
- `gap`: By how much does a measured whole differ from the sum of its predicted parts, and whose fault is it?
- `predictors`: Every predictor of the book behind the one interface of `predict.interface`;
- `serving_gap`: The composition gap of serving, measured:
- `study_score`: How well do the fidelities tell published training steps, against a constant utilisation, in time and in the order of ...
- `study_step`: How long does a published training step take, by fidelity?
"""
