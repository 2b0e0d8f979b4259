"""How much memory a training needs, estimated from one pass through the network."""

from __future__ import annotations

import torch
from torch import Tensor, nn

PROCESS_BYTES = 270 * 1024**2  # one process with torch and nothing to train, as measured
MODELS = 6  # the network, its gradient, the optimizer's memory, download, update, and one more


def training_bytes(
    network: nn.Module, inputs: tuple[Tensor, ...], *, batch: int, samples: int
) -> int:
    """Bytes of a training process: its network, its samples, and a step with one batch."""
    model: int = sum(value.nbytes for value in network.state_dict().values())
    sample: int = sum(part[0].nbytes for part in inputs)
    passed = _passed_on(network, inputs) // len(inputs[0])
    return PROCESS_BYTES + MODELS * model + 2 * samples * sample + 2 * batch * passed


def training_flops(network: nn.Module, inputs: tuple[Tensor, ...]) -> float:
    """Operations for one sample in a training: the way back takes twice those of the way."""
    from torch.utils.flop_counter import FlopCounterMode

    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network(*inputs)
    return 3 * float(counter.get_total_flops()) / len(inputs[0])


def _passed_on(network: nn.Module, inputs: tuple[Tensor, ...]) -> int:
    """Bytes that the layers hand to each other, which a training keeps for its way back."""
    total = 0

    def count(_module: nn.Module, _inputs: object, outputs: object) -> None:
        nonlocal total
        total += outputs.nbytes if isinstance(outputs, Tensor) else 0

    leaves = [module for module in network.modules() if not [*module.children()]]
    hooks = [module.register_forward_hook(count) for module in leaves]
    try:
        with torch.no_grad():
            network(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return total
