"""The scene tests' outside, as the runtime had it in August 2026; what it runs is a line of the orchestration."""

from .scene_test import Scalar, SceneTestCase, TaskArgsBuilder, TensorArg, scene_test

__all__ = ["Scalar", "SceneTestCase", "TaskArgsBuilder", "TensorArg", "scene_test"]
