"""The one place that imports torchvision: to download datasets, and for its networks."""

from __future__ import annotations

import functools
import importlib
from types import ModuleType
from typing import TYPE_CHECKING

from common.errors import ConfigError

if TYPE_CHECKING:
    import torch


def import_datasets() -> ModuleType:
    """`torchvision.datasets`, also where torchvision's compiled operators cannot be loaded."""
    return _imported("torchvision.datasets")


def import_models(wanted: str) -> ModuleType:
    """`torchvision.models`, for a model of an experiment."""
    try:
        return _imported("torchvision.models")
    except ImportError as error:
        raise ConfigError(
            f"model.name is {wanted!r}, which needs torchvision: pip install torchvision"
        ) from error


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except RuntimeError:  # "operator torchvision::nms does not exist"
        _declare_operators()
        return importlib.import_module(name)


@functools.cache  # once, and kept: the declarations end when the library object does
def _declare_operators() -> torch.library.Library:
    """PyPI's torchvision beside a CPU torch fails at import: two operators are not declared.

    A signature for each is enough: datasets and classifiers never call them. It is tried only
    after the plain import failed, because a torchvision that can load its operators declares
    them itself.
    """
    import torch

    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library
