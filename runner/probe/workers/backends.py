"""Where workers come from: processes of this machine by way of joblib's loky, or a cluster of dask or ray."""

import importlib.util
import os
from collections.abc import Callable
from typing import Any, Literal

import joblib  # pyright: ignore[reportMissingTypeStubs]
from joblib.externals import loky  # pyright: ignore[reportMissingTypeStubs]

from ...errors import UsageError
from .worker import belong_to

Backend = Literal["loky", "dask", "ray"]

_MODULES = {"dask": "distributed", "ray": "ray"}
_STARTS = {
    "dask": "dask scheduler, dask worker tcp://HOST:8786 on each machine, DASK_SCHEDULER_ADDRESS=tcp://HOST:8786",
    "ray": "ray start --head, ray start --address=HEAD:6379 on each machine, RAY_ADDRESS=HEAD:6379",
}
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
            f"--backend {backend}: expected the address of a running cluster in ${_ADDRESSES[backend]}, found none; "
            f"start one and set it: {_STARTS[backend]}"
        )


def cluster_address(backend: Literal["dask", "ray"]) -> str:
    """Where a cluster is. Raises `UsageError`."""
    check_backend(backend)
    return os.environ[_ADDRESSES[backend]]


def call_at_once(function: Callable[..., None], arguments: tuple[Any, ...], *, times: int) -> None:
    """Call a function so many times at once, in as many processes, and wait for all. Raises what a call raises, or
    loky where it loses a process."""
    parallel: Any = joblib.Parallel
    with joblib.parallel_config(backend="loky", initializer=belong_to, initargs=(os.getpid(),)):
        parallel(n_jobs=times, batch_size=1, pre_dispatch="all")([(function, arguments, {})] * times)


def end_own_processes() -> None:
    """Loky keeps its processes for calls to come: there are none."""
    own: Any = loky
    own.get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)
