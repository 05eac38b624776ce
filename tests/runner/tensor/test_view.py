"""Tensor views against numpy and torch."""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from precision_bisect.runner.tensor import DType, TensorView, ViewError, contiguous_strides


@pytest.mark.parametrize("dtype", DType)
def test_types_agree_with_torch(dtype):
    tensor = torch.zeros(1, dtype=getattr(torch, dtype.torch_name))
    assert dtype.itemsize == tensor.element_size()
    assert dtype.is_floating == tensor.is_floating_point()
    assert DType.parse(str(tensor.dtype)) is dtype
    assert DType.parse(f"DataType::{dtype.value.upper()}") is dtype


def test_unknown_type_is_an_error():
    with pytest.raises(ValueError, match="complex64"):
        DType.parse("complex64")


@st.composite
def strided(draw):
    """A torch tensor over 60 elements with drawn geometry, possibly transposed, sliced or expanded."""
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    strides = [draw(st.integers(0, 5)) for _ in shape]
    offset = draw(st.integers(0, 5))
    return shape, strides, offset


@given(strided(), st.sampled_from(list(DType)))
def test_views_equal_torch(geometry, dtype):
    shape, strides, offset = geometry
    values = torch.arange(60).to(getattr(torch, dtype.torch_name))
    expected = values.as_strided(shape, strides, offset)
    storage = values.view(torch.uint8).numpy().view(dtype.storage)
    view = TensorView(
        name="t", dtype=dtype, shape=tuple(shape), strides=tuple(strides), storage=storage, offset=offset
    )
    assert view.numel == expected.numel()
    assert torch.equal(view.torch(), expected)
    assert view.contiguous().shape == tuple(shape)


@given(st.lists(st.integers(-1, 4), max_size=3), st.lists(st.integers(-9, 9), max_size=3), st.integers(-2, 9))
def test_no_view_reaches_outside_its_storage(shape, strides, offset):
    storage = np.arange(10, dtype="<f4")
    inside = len(shape) == len(strides) and offset >= 0 and min(shape, default=0) >= 0
    indices: list[int] = []
    if inside:
        indices = [
            offset + sum(i * s for i, s in zip(index, strides, strict=True)) for index in np.ndindex(*shape)
        ]
        inside = all(0 <= index < 10 for index in indices)

    def make():
        return TensorView(
            name="t",
            dtype=DType.FLOAT32,
            shape=tuple(shape),
            strides=tuple(strides),
            storage=storage,
            offset=offset,
        )

    if inside:
        assert make().contiguous().ravel().tolist() == [storage[index] for index in indices]
    else:
        with pytest.raises(ViewError):
            make()


def test_contiguous_copies_only_what_must_be():
    storage = np.arange(12, dtype="<f4")
    whole = TensorView.from_contiguous("t", DType.FLOAT32, (3, 4), storage)
    assert np.shares_memory(whole.contiguous(), storage)
    unaligned = np.zeros(9, np.uint8)[1:].view("<f4")
    assert TensorView.from_contiguous("t", DType.FLOAT32, (2,), unaligned).contiguous().flags.aligned


def test_read_only_storage_gives_a_tensor_without_a_warning():
    storage = np.arange(3, dtype="<f4")
    storage.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert TensorView.from_contiguous("t", DType.FLOAT32, (3,), storage).torch().tolist() == [0, 1, 2]


def test_stray_bool_bytes_are_true():
    storage = np.array([0, 1, 2, 255], np.uint8)
    assert TensorView.from_contiguous("t", DType.BOOL, (4,), storage).torch().tolist() == [
        False,
        True,
        True,
        True,
    ]


def test_storage_of_another_type_is_refused():
    with pytest.raises(ViewError, match="float32"):
        TensorView.from_contiguous("t", DType.FLOAT32, (2,), np.zeros(2, "<f8"))


@given(st.lists(st.integers(1, 5), max_size=4))
def test_contiguous_strides_are_numpy_s(shape):
    assert contiguous_strides(tuple(shape)) == np.zeros(shape, np.uint8).strides
