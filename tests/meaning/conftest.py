"""Tests of dumps run on one thread: their tensors are too small for more."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    torch.set_num_threads(1)
