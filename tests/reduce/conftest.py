"""What several files here run builds with."""

import pytest

from tests.reduce.demo_builds import Trees


@pytest.fixture(scope="session")
def good_trees(tmp_path_factory: pytest.TempPathFactory) -> Trees:
    """The demo's trees without a fault, compiled; nobody changes them."""
    return Trees.make(tmp_path_factory.mktemp("good") / "trees")
