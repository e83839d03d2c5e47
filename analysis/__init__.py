"""Models, statistics and bookkeeping behind the book: data in, data out, nothing read from the network.

What a user imports, each loaded when it is first used (so that a notebook depends on what it uses and on nothing else):

    from analysis import predict_training, read_csv
    answers = predict_training(read_csv("cases.csv", dtype=str, keep_default_na=False))
"""

FACE = {
    "device": "analysis.hardware.devices.load",
    "time_on_device": "analysis.hardware.roofline.time_on_device",
    "read_csv": "analysis.tables.read_csv",
    "predict_training": "analysis.composition.training.answers.answers",
    "predict_batch": "analysis.composition.batch.answers.answers",
    "predict_serving": "analysis.composition.service.answers.answers",
    "predict_one": "analysis.composition.service.waterfall.one",
    "recommend": "analysis.composition.recommend.choice.one",
    "predict_kernels": "analysis.operators.kernels.cases.answer",
    "predict_collectives": "analysis.networks.case_table.answer_cases",
    "predict_systolic": "analysis.accelerators.systolic.cases.predict_cases",
    "read_program": "analysis.workloads.hlo.reader.read",
    "predict_program": "analysis.composition.predict.predictions",
}
"""The public face: name here, and where the function lives."""


def __getattr__(name: str) -> object:
    if name not in FACE:
        raise AttributeError(f"module 'analysis' has no attribute {name!r}")
    module, _, function = FACE[name].rpartition(".")
    return getattr(__import__(module, fromlist=[function]), function)


def __dir__() -> list[str]:
    return sorted([*globals(), *FACE])
