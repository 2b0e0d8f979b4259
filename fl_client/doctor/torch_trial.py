"""A child process that finds out whether torch really works on this CPU.

A build for newer CPUs imports well and then dies of an illegal instruction in its first real
work, so this does real work: a matrix product, a convolution, one training step; with one
thread, as training does, and then with two, for some builds die only of that. Every step is
named on stdout before it is tried; the parent sees how far it came.
"""

from __future__ import annotations

import sys

THREADS = (1, 2)


def _print(key: str, value: str) -> None:
    sys.stdout.write(f"{key} {value}\n")
    sys.stdout.flush()


def main() -> None:
    """Import torch and train one step with each number of threads."""
    _print("step", "import")
    import torch  # the point of this process

    _print("version", str(torch.__version__))
    for threads in THREADS:
        torch.set_num_threads(threads)
        _train("" if threads == 1 else f" with {threads} threads")


def _train(how: str) -> None:
    import torch
    from torch.nn import functional

    _print("step", f"matmul{how}")
    square = torch.ones(256, 256)
    assert float((square @ square)[0, 0]) == 256.0
    _print("step", f"convolution{how}")
    images, kernels = torch.ones(8, 1, 28, 28), torch.ones(4, 1, 5, 5, requires_grad=True)
    features = functional.conv2d(images, kernels)
    assert float(features.detach()[0, 0, 0, 0]) == 25.0
    _print("step", f"training step{how}")
    head = torch.zeros(10, 4 * 24 * 24, requires_grad=True)
    answers = functional.relu(features).flatten(1) @ head.T
    functional.cross_entropy(answers, torch.zeros(8, dtype=torch.int64)).backward()
    with torch.no_grad():
        for parameter in (kernels, head):
            assert parameter.grad is not None
            parameter -= 0.1 * parameter.grad
    assert bool(torch.isfinite(head).all())


if __name__ == "__main__":
    main()
