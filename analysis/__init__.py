"""Models, statistics and bookkeeping behind the book: data in, data out, nothing read from the network.

What a user imports stands in `analysis.face`, each function loaded when it is first used (so that a notebook depends on what it uses and on
nothing else); an installed package offers the same as `howfast`:

    from analysis import predict_training
    answers = predict_training("cases.csv")
"""

NAMES = (
    "device", "time_on_device", "read_csv", "predict_training", "predict_batch", "predict_serving", "predict_one", "recommend",
    "predict_kernels", "predict_collectives", "predict_systolic", "train", "serve", "replay", "map_layer", "simulate_core", "read_program",
    "predict_program",
)  # fmt: skip
FACE = {name: f"analysis.face.{name}" for name in NAMES}
"""The public face: name here, and where the function lives."""


def __getattr__(name: str) -> object:
    if name not in FACE:
        raise AttributeError(f"module 'analysis' has no attribute {name!r}")
    return getattr(__import__("analysis.face", fromlist=[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *FACE])
