"""What do trees make of shapes and data sheets as they are? The learned baselines: gradient boosting and a random forest."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, Self

import numpy as np

from analysis.operators.kernel_cases import Measurements, Operators, Prediction
from analysis.operators.kernel_devices import Gpu
from analysis.operators.kernel_features import plain_features
from analysis.operators.kernel_physics import Physics, bound_by, roofline
from analysis.operators.kernel_residual import balance, draw, per_device
from analysis.operators.kernel_trees import Boosting, Trees, fit_boosting, fit_forest


@dataclass(frozen=True)
class PlainTrees:
    """log latency = trees(shape, work, data sheet), or log(latency / roofline) with `ratio`.

    Args:
        kind: boosting or forest.
        ratio: whether the target is relative to the roofline.
        boosting: settings, for boosting.
        most_per_device: measurements of each device used in the fit.
    """

    kind: Literal["boosting", "forest"] = "boosting"
    ratio: bool = True
    boosting: Boosting = field(default_factory=lambda: Boosting(trees=120, leaves=31, learning_rate=0.1, loss="squared_error"))
    most_per_device: int = 2000
    seed: int = 0
    trees: Trees | None = None

    def fit(self, measurements: Measurements) -> Self:
        """Learn from measurements."""
        part = measurements.take(draw(measurements.device, self.most_per_device, self.seed))
        features = per_device(part.operators, part.device, plain_features)
        target = np.log(part.latency_s)
        if self.ratio:
            target = target - np.log(per_device(part.operators, part.device, lambda o, gpu: roofline(o, gpu).latency_s))
        weight = balance(part.device)
        if self.kind == "forest":
            return replace(self, trees=fit_forest(features, target, weight, seed=self.seed))
        return replace(self, trees=fit_boosting(features, target, weight, self.boosting, self.seed))

    def predict(self, operators: Operators, device: Gpu) -> Prediction:
        """Predict each case on one device."""
        if self.trees is None:
            raise ValueError("fit the predictor first")
        log = self.trees.predict(plain_features(operators, device))
        if self.ratio:
            log = log + np.log(roofline(operators, device).latency_s)
        return Prediction.point(np.exp(log), bound_by(operators, device, Physics()))
