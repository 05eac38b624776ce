"""Which packages are installed: each folder of a room that has modules. All else is in pyproject.toml."""

from setuptools import find_namespace_packages, setup

ROOMS = ("bisect", "configs", "demo", "meaning", "reduce", "runner", "store")

setup(
    packages=[
        f"precision_bisect.{package}"
        for room in ROOMS
        for package in (
            room,
            *(
                f"{room}.{each}"
                for each in find_namespace_packages(
                    room, exclude=["trees*", "*__pycache__*", "*static*", "*templates*", "*schedulers*"]
                )
            ),
        )
    ]
)
