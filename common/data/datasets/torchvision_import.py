"""The one place that imports torchvision; only downloading a dataset needs it."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def import_datasets() -> ModuleType:
    """`torchvision.datasets`, also where torchvision's compiled operators cannot be loaded."""
    try:
        from torchvision import datasets
    except RuntimeError:  # "operator torchvision::nms does not exist"
        _declare_operators()
        from torchvision import datasets
    return datasets  # type: ignore[no-any-return]  # torchvision has no types


@functools.cache  # once, and kept: the declarations end when the library object does
def _declare_operators() -> torch.library.Library:
    """PyPI's torchvision beside a CPU torch fails at import: two operators are not declared.

    A signature for each is enough; datasets never call them. It is tried only after the plain
    import failed, because a torchvision that can load its operators declares them itself.
    """
    import torch

    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library
