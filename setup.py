"""The wheel: the package, and what its commands read of the repository, below `analysis/repository`; the rest is in pyproject.toml."""

from setuptools import find_packages, setup

READ = (
    "cores",
    "frozen",
    "hardware",
    "measured",
    "measured_suite",
    "models",
    "mtap",
    "networks",
    "published",
    "recorded",
    "schemas",
    "sources",
    "survey",
    "workloads",
)
WHERE = {"analysis.repository.data": "data", "analysis.repository.examples": "examples", "howfast": "analysis/howfast"}
"""Packages of the wheel that lie elsewhere in the repository: data, examples, and the name that users import."""

setup(
    packages=[*find_packages(include=["analysis", "analysis.*"], exclude=["analysis.howfast"]), *WHERE],
    package_dir=WHERE,
    package_data={
        "analysis": ["**/*.html", "**/*.js", "**/*.css", "**/*.typ", "**/*.yaml"],
        "analysis.repository.data": [f"{folder}/**/*" for folder in READ],
        "analysis.repository.examples": ["**/*"],
    },
)
