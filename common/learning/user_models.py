"""Networks that are not described in `specs.py`: users' own, made by their function, and
torchvision's. Any module will do; here it gets the two parts that all else knows.

Only for these does the server need torch: to learn their names, shapes and first values.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from common.arrays import part_of
from common.data.datasets.torchvision_import import import_models
from common.errors import ConfigError
from common.learning.specs import Shape
from common.learning.torch_seed import torch_chance_from
from common.plugins import find_function, user_errors

TORCHVISION = "torchvision:"
_HEADS = ("fc", "classifier", "heads", "head")  # what torchvision calls the last layers


class Split(nn.Module):
    """A network whose last part, the head, was taken out of it."""

    def __init__(self, network: nn.Module, head: str) -> None:
        super().__init__()
        self.head_name = head
        place, _, last = head.rpartition(".")
        part = network.get_submodule(head)
        setattr(network.get_submodule(place), last, nn.Identity())
        self.base = network
        self.head = part

    def forward(self, *inputs: Tensor) -> Tensor:
        """The head on the base."""
        logits: Tensor = self.head(self.base(*inputs))
        return logits


class Whole(nn.Module):
    """A network of which nobody said what its head is: all of it is base."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.base = network
        self.head = nn.Identity()

    def forward(self, *inputs: Tensor) -> Tensor:
        """What the network makes of its inputs."""
        logits: Tensor = self.base(*inputs)
        return logits


def find_network(name: str) -> Callable[..., object]:
    """The function that makes the network `name` from a shape and a number of classes."""
    if not name.startswith(TORCHVISION):
        return find_function("model.name", name)
    wanted, models = name.removeprefix(TORCHVISION), import_models(name)
    known: list[str] = models.list_models(module=models)
    if wanted not in known:
        near = difflib.get_close_matches(wanted, known, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"model.name is {name!r}, which torchvision does not have{hint}")
    function: Callable[..., nn.Module] = getattr(models, wanted)
    return lambda _shape, classes: function(weights=None, num_classes=classes)


def make_user_model(
    name: str,
    head: str,
    *,
    shape: Shape | tuple[Shape, ...],
    classes: int,
    rng: np.random.Generator,
    trial: tuple[Tensor, ...] | None = None,
) -> nn.Module:
    """What `function(shape, classes)` makes, with a part `base` and a part `head`.

    Its first values depend on `rng` alone. On the inputs `trial` it is tried.
    """
    what, function = f"model.name is {name!r}", find_network(name)
    with torch_chance_from(rng), user_errors(what, function):
        model = function(shape, classes)
    if not isinstance(model, nn.Module):
        raise ConfigError(f"{what}, which makes {type(model).__name__}; expected nn.Module")
    _check_arrays(what, model)
    model.eval()
    before = None if trial is None else _answers(what, model, function, trial, classes)
    head = head or _usual_head(name, model)
    model = _with_parts(model, head).eval()
    if trial is not None and before is not None:
        _check_same(head, model, trial, before)
    return model


def _usual_head(name: str, model: nn.Module) -> str:
    if not name.startswith(TORCHVISION):
        return ""
    return next((part for part in _HEADS if hasattr(model, part)), "")


def _with_parts(model: nn.Module, head: str) -> nn.Module:
    if head:
        _check_head(model, head)
        return Split(model, head)
    if {part_of(array) for array in model.state_dict()} == {"base", "head"}:
        return model
    return Whole(model)


def _check_arrays(what: str, model: nn.Module) -> None:
    if next(model.parameters(), None) is None:
        raise ConfigError(f"{what}, which has no parameters; there is nothing to train")
    for array, value in model.state_dict().items():
        if value.dtype not in (torch.float32, torch.int64):
            raise ConfigError(
                f"{what}, in which {array} is {value.dtype}; "
                "expected torch.float32 (or torch.int64 for counters)"
            )


def _check_head(model: nn.Module, head: str) -> None:
    parts = [name for name, _ in model.named_modules() if name]
    if head not in parts:
        near = difflib.get_close_matches(head, parts, n=1, cutoff=0.5)
        top = ", ".join(name for name in parts if "." not in name)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {top or 'no parts'}"
        raise ConfigError(f"model.head is {head!r}, which the model does not have; {hint}")
    if next(model.get_submodule(head).parameters(), None) is None:
        raise ConfigError(f"model.head is {head!r}, which has no parameters")


def _answers(
    what: str,
    model: nn.Module,
    function: Callable[..., object],
    trial: tuple[Tensor, ...],
    classes: int,
) -> Tensor:
    """What the model makes of the inputs; its first values do not matter."""
    shapes = " and ".join(str(tuple(part.shape[1:])) for part in trial)
    inputs = f"with inputs of shape {shapes}"
    with torch.no_grad(), user_errors(f"{what}, {inputs}", function):
        answers: object = model(*trial)
    expected = (len(trial[0]), classes)
    if not isinstance(answers, Tensor):
        kind = type(answers).__name__
        raise ConfigError(f"{what}, which answers {kind} {inputs}; expected a tensor")
    if tuple(answers.shape) != expected:
        raise ConfigError(
            f"{what}, which answers {len(trial[0])} samples by {tuple(answers.shape)} {inputs};"
            f" expected {expected}"
        )
    return answers


def _check_same(head: str, model: nn.Module, trial: tuple[Tensor, ...], before: Tensor) -> None:
    """The head must be the last that a model does, or it cannot be trained by itself."""
    try:
        with torch.no_grad():
            same = torch.equal(model(*trial), before)
    except Exception as error:  # the model itself has just worked
        text = f"model.head is {head!r}, but the model does not work without it"
        raise ConfigError(f"{text}: {' '.join(str(error).split())[:200]}") from error
    if not same:
        raise ConfigError(
            f"model.head is {head or 'head'!r}, but the model does more after it; expected its "
            "last part"
        )
