"""A guard against steps that grow slowly heavier: the operations of a step are counted, not timed."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import actgp
from actgp.training.objectives import network_objective

VIEWS = {"view", "t", "transpose", "permute", "unsqueeze", "expand", "select", "slice", "diagonal", "detach", "split"}
FREE = VIEWS | {"split_with_sizes", "empty_like", "new_empty"}


class Counter(TorchDispatchMode):
    """Counts operations that compute something."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func.overloadpacket.__name__ not in FREE
        return func(*args, **(kwargs or {}))


class Largest(TorchDispatchMode):
    """The most numbers that a tensor had."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.numbers = max(self.numbers, result.untyped_storage().nbytes() // result.element_size())
        return result


def operations(run: Callable[[], object]) -> int:
    run()  # what is prepared at the first use does not count
    with Counter() as counter:
        run()
    return counter.count


def small_step(num_points: int, kernel: str) -> tuple[actgp.DeepGP, torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    model = actgp.deep_gp(
        8, num_layers=3, num_inducing=128, layers=actgp.Layers(num_points=num_points, kernel=kernel), generator=g
    )
    return model, torch.randn(128, 8, generator=g), torch.randn(128, 1, generator=g)


@pytest.mark.parametrize("kernel", ["arccosine", "matched"])
@pytest.mark.parametrize(("num_points", "most"), [(0, 575), (64, 820)])  # some 5 % above what they are
def test_steps_do_not_grow_heavier(kernel: str, num_points: int, most: int) -> None:
    model, X, y = small_step(num_points, kernel)

    def step() -> None:
        (-model.elbo(X, y, 1000)).backward()

    def network_step() -> None:
        network_objective(model, X, y).loss.backward()

    assert operations(step) <= most
    assert operations(network_step) <= 320


@pytest.mark.parametrize(("num_points", "most"), [(0, 79), (64, 110)])
def test_a_prediction_takes_few_operations_for_each_block_of_rows(num_points: int, most: int) -> None:
    model = actgp.deep_gp(8, layers=actgp.Layers(num_points=num_points))
    few, many = (operations(lambda n=n: model.predict(torch.zeros(n, 8), 10)) for n in (500, 5_000))
    assert (many - few) / 45_000 * 512 < most


@pytest.mark.parametrize("num_points", [0, 64])
def test_memory_of_a_prediction_does_not_grow_with_its_rows(num_points: int) -> None:
    model = actgp.deep_gp(8, layers=actgp.Layers(num_points=num_points))
    sizes = []
    for rows in (4_000, 8_000):
        X = torch.zeros(rows, 8)
        with Largest() as largest:
            model.predict(X, 10)
        sizes.append(largest.numbers)
    assert sizes[0] == sizes[1] > 10 * 8_000  # and what is largest is not the result itself
