"""How fast will it run? Training, serving, kernels, collectives, programs, accelerators and cores; times on real machines with their doubt.

    import howfast
    howfast.predict_one("llama-3.1-70b", "h100", gpus=8).answer

The command of the same name answers the same questions: `howfast predict one --model llama-3.1-70b --device h100 --gpus 8`.
"""

from analysis import NAMES, face

__all__ = list(NAMES)
globals().update({name: getattr(face, name) for name in NAMES})
