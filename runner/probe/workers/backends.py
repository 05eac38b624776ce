"""Where workers come from: processes of this machine and a cluster of ray by way of joblib, hosts of dask as tasks."""

import contextlib
import importlib
import importlib.util
import os
from collections.abc import Callable, Generator
from typing import Any, Literal

import joblib  # pyright: ignore[reportMissingTypeStubs]
from joblib.externals import loky  # pyright: ignore[reportMissingTypeStubs]

from ...errors import UsageError
from .worker import belong_to

Backend = Literal["loky", "dask", "ray"]

_MODULES = {"dask": "distributed", "ray": "ray"}
_ADDRESSES = {"dask": "DASK_SCHEDULER_ADDRESS", "ray": "RAY_ADDRESS"}


def check_backend(backend: Backend) -> None:
    """Check that workers of this kind can be had.

    Raises:
        UsageError: the backend's package or its cluster's address is missing.
    """
    if backend == "loky":
        return
    if importlib.util.find_spec(_MODULES[backend]) is None:
        raise UsageError(
            f"--backend {backend}: expected the package {_MODULES[backend]}, found none: "
            f"pip install 'precision-bisect[{backend}]'"
        )
    if not os.environ.get(_ADDRESSES[backend]):
        raise UsageError(
            f"--backend {backend}: expected the address of a running cluster in ${_ADDRESSES[backend]}, found none"
        )


def scheduler_address() -> str:
    """Where dask's scheduler is. Raises `UsageError`."""
    check_backend("dask")
    return os.environ[_ADDRESSES["dask"]]


def call_at_once(
    backend: Backend, function: Callable[..., None], arguments: tuple[Any, ...], *, times: int
) -> None:
    """Call a function so many times at once, in as many workers, and wait for all. Raises what a call raises, or the
    backend where it loses its workers."""
    parallel: Any = joblib.Parallel
    with _configured(backend):
        parallel(n_jobs=times, batch_size=1, pre_dispatch="all")([(function, arguments, {})] * times)


def end_own_processes() -> None:
    """Loky keeps its processes for calls to come: there are none."""
    own: Any = loky
    own.get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)


@contextlib.contextmanager
def _configured(backend: Backend) -> Generator[None]:
    if backend == "ray":
        ray: Any = importlib.import_module("ray.util.joblib")
        ray.register_ray()
        with joblib.parallel_config(backend="ray"):
            yield
        return
    with joblib.parallel_config(backend="loky", initializer=belong_to, initargs=(os.getpid(),)):
        yield
