"""Scene tests: an orchestration and its kernels, run on a test's own tensors and compared with its own golden."""

from .scene import Scalar, SceneTestCase, TaskArgsBuilder, TensorArg, scene_test

__all__ = ["Scalar", "SceneTestCase", "TaskArgsBuilder", "TensorArg", "scene_test"]
