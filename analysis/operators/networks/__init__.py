"""How long does a whole network take, from its operators or from a few samples on a new device?

- `few_shot_spaces`: HELP's measured search spaces; `few_shot`: our prediction from a few samples; `few_shot_meta`: HELP's idea, rebuilt;
  `few_shot_trial`: seeds, splits and the paired comparison; `few_shot_freeze`: the study in full.
- `kernel_lists`: which kernels a transformer launches; `fusion_detection`: which operators a device fuses, found by timing (nn-Meter).
- `sums`: how far latency is a sum of its parts.
"""
