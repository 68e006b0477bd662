"""Several ranks train one model: the one that a single process trains with the same minibatches."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, distributed
from two_ranks import run, run_alone, start

import actgp

FIT = """
g = torch.Generator().manual_seed(0)
X = torch.randn(400, 3, generator=g, dtype=torch.float64)
y = torch.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * torch.randn(400, generator=g, dtype=torch.float64)
torch.manual_seed(rank)  # ranks begin with other weights, and take those of rank 0
g = torch.Generator().manual_seed(rank)
model = actgp.deep_gp(3, num_layers=2, num_inducing=12, likelihood=GaussianLikelihood(), generator=g).double()
recipe = actgp.Recipe(network_steps=50, num_steps=50, batch_size=40)
result = actgp.fit(
    model, X, y, recipe, generator=g, progress=False, checkpoint=folder / "run.ckpt" if CHECKPOINT else None,
    callback=CALLBACK,
)
torch.save(
    {
        "network": torch.tensor(result.network_objectives, dtype=torch.float64),
        "posterior": torch.tensor(result.objectives, dtype=torch.float64),
        "final": torch.tensor(result.final_objectives, dtype=torch.float64),
        "held_out": torch.tensor(result.held_out, dtype=torch.float64),
        **model.state_dict(),
    },
    folder / f"{rank}of{size}.pt",
)
"""
PLAIN = "CHECKPOINT, CALLBACK = False, None\n" + FIT
KILLED = (
    """
import importlib
import os
import signal

importlib.import_module("actgp.training.stages").CHECKPOINT_SECONDS = 0.0
CHECKPOINT = True

def CALLBACK(step):
    if rank == 1 and step.stage == "posterior" and step.step == 20:
        os.kill(os.getpid(), signal.SIGKILL)
"""
    + FIT
)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tensor]:
    """What one process comes to."""
    folder = tmp_path_factory.mktemp("alone")
    run_alone(PLAIN, folder)
    return torch.load(folder / "0of1.pt")


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    for name, values in expected.items():
        torch.testing.assert_close(found[name], values, rtol=1e-7, atol=1e-7, msg=lambda text: f"{name}: {text}")  # noqa: B023


def test_two_ranks_take_the_steps_of_one_process(alone: dict[str, Tensor], tmp_path: Path) -> None:
    """Network, warm start, natural gradients, validation, calibration and the last stage, to round-off."""
    run(PLAIN, 2, tmp_path)
    first, second = (torch.load(tmp_path / f"{rank}of2.pt") for rank in range(2))
    assert len(alone["network"]) == len(alone["posterior"]) == 50
    assert len(alone["final"]) == 6
    assert_same(first, alone)
    for name, values in first.items():
        assert torch.equal(second[name], values), name  # to the last bit


def test_a_killed_rank_ends_the_others_and_one_process_goes_on(alone: dict[str, Tensor], tmp_path: Path) -> None:
    began = time.monotonic()
    survivor, killed = start(KILLED, 2, tmp_path)
    killed.communicate(timeout=120)
    assert killed.returncode == -9
    died = time.monotonic()
    _, said = survivor.communicate(timeout=60)
    assert survivor.returncode == 1
    assert time.monotonic() - died < 60, f"{died - began:.0f} s before"
    assert re.search("RuntimeError: all 2 ranks must train together, got no answer from another one in rank 0", said)
    assert "with checkpoint= it goes on from the file, in any number of processes" in said
    run_alone("CHECKPOINT, CALLBACK = True, None\n" + FIT, tmp_path)
    assert_same(torch.load(tmp_path / "0of1.pt"), alone)


OTHERS = """
from actgp.training.loader import LoaderBatches

X = torch.arange(46.0, dtype=torch.float64).view(23, 2)
y = X[:, 0]


def model_of(dim=2):
    return actgp.deep_gp(dim, num_layers=1, num_inducing=4, generator=torch.Generator().manual_seed(rank)).double()


# A DataLoader that gives each rank the same batches, one whose sampler gives each its own, and an iterable one.
data, found = TensorDataset(X, y), {}
for name, loader, num_data in (
    ("same", DataLoader(data, batch_size=5, shuffle=True), None),
    ("own", DataLoader(data, batch_size=5, sampler=DistributedSampler(data)), None),
    ("stream", DataLoader(Stream(X[rank::size], y[rank::size]), batch_size=5), 23),
    ("same stream", DataLoader(Stream(X, y), batch_size=5), 23),
):
    torch.manual_seed(rank)
    batches = LoaderBatches(loader, model_of(), torch.device("cpu"), num_data)
    steps = 3 if batches.own else 5
    found[name] = [batches.own, batches.num_data, torch.cat([batches.next()[1] for _ in range(steps)])]
    found[name] += [torch.cat([part for _, part in batches.sample(most)]) for most in (100, 7)]
    found[name].append(torch.cat([batches.next()[1] for _ in range(steps)]))

errors = []
for arguments, options in (
    ((X + rank, y), {}),
    ((X, y), {"held_out": (X + rank, y)}),
    ((X, y, actgp.Recipe(network_steps=1, num_steps=1 + rank)), {}),
    ((X, y), {"checkpoint": folder / "missing" / "run.ckpt"}),
):
    try:
        actgp.fit(model_of(), *arguments, progress=False, **options)
    except (ValueError, FileNotFoundError) as error:
        errors.append(str(error))

net = nn.Linear(2, 1)
for name, call in (
    ("fit_table", lambda: actgp.fit_table(X, y)),
    ("uncertain", lambda: actgp.uncertain(net, X.float(), y.float()[:, None])),
):
    try:
        call()
    except RuntimeError as error:
        errors.append(str(error))

# Models that every rank fits whole, and a loader of rows of its own, in closed form.
torch.manual_seed(0)
Z, t = X / 46, (X / 46).square().sum(1)
exact = actgp.SGPR(Z, t, actgp.ArcCosine(2), actgp.InducingPoints(Z[:4].clone() + rank)).double()
actgp.fit(exact, progress=False)
net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)).double()
own = DataLoader(TensorDataset(Z, t[:, None]), batch_size=6, sampler=DistributedSampler(range(23)))
converted, _ = actgp.convert(net, Z)
closed = actgp.fit(converted, own, held_out=(Z[:9], t[:9, None]), progress=False)
# The loss as a module that DDP goes around.
gradients = {}
for stage in ("network", "posterior"):
    deep = actgp.deep_gp(2, num_layers=2, num_inducing=4, generator=torch.Generator().manual_seed(rank)).double()
    actgp.start_network(deep, Z)
    if stage == "posterior":
        actgp.start_posterior(deep, Z, t)
    wrapped = nn.parallel.DistributedDataParallel(actgp.Loss(deep, 100, stage), find_unused_parameters=True)
    torch.manual_seed(3)
    wrapped(Z[rank:22:size], t[rank:22:size]).backward()
    gradients[stage] = deep.state_dict(), {name: p.grad for name, p in deep.named_parameters() if p.grad is not None}

parts = {"exact": exact.state_dict(), "converted": converted.state_dict()}
torch.save({"gradients": gradients, "found": found, "errors": errors, **parts}, folder / f"others{rank}.pt")
"""
STREAM = """
class Stream(IterableDataset):
    def __init__(self, X, y):
        self.X, self.y = X, y

    def __iter__(self):
        return zip(self.X, self.y)
"""


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("others")
    run(STREAM + OTHERS, 2, folder)
    return [torch.load(folder / f"others{rank}.pt") for rank in range(2)]


@pytest.mark.parametrize("name", ["same", "own", "stream", "same stream"])
def test_the_ranks_of_a_loader_have_each_row_once(name: str, others: list[dict[str, Any]]) -> None:
    (own, N, *passes), (own_too, N_too, *passes_too) = (each["found"][name] for each in others)
    assert own == own_too == (name in ("own", "stream"))
    assert N == N_too == 23
    rows = torch.arange(0.0, 46.0, 2.0, dtype=torch.float64)
    for position, (mine, yours) in enumerate(zip(passes, passes_too, strict=True)):
        together = torch.cat([mine, yours])
        if position == 2:  # a sample
            assert 4 <= len(together) <= 12
        else:
            assert torch.equal(together.unique(), rows)
            assert len(together) <= 23 + (5 if name.startswith("same") else 1)  # where 2 does not divide a batch


def test_ranks_with_other_data_or_recipes_are_refused(others: list[dict[str, Any]]) -> None:
    for each in others:
        data, held_out, recipe, folder, *alone = each["errors"]
        assert data.startswith("X and y must be the same in all 2 ranks, got others than those of rank 0; load all")
        assert held_out.startswith("held_out must be the same in all 2 ranks, got others than those of rank 0; give")
        assert recipe.startswith("the recipe must be the same in all 2 ranks, got others than those of rank 0; build")
        assert folder.startswith("the directory of a file must exist")
        for name, said in zip(("fit_table", "uncertain"), alone, strict=True):
            assert said.startswith(f"{name} must run in one process, since it is not distributed, got 2 ranks; run the")


def test_what_each_rank_fits_whole_is_that_of_the_first(others: list[dict[str, Any]]) -> None:
    for part in ("exact", "converted"):
        for name, values in others[0][part].items():
            assert torch.equal(values, others[1][part][name]), name


@pytest.mark.parametrize("stage", ["network", "posterior"])
def test_ddp_around_the_loss_has_the_gradients_of_all_rows(stage: str, others: list[dict[str, Any]]) -> None:
    state, gradients = others[0]["gradients"][stage]
    model = actgp.deep_gp(2, num_layers=2, num_inducing=4).double()
    model.load_state_dict(state)
    X = torch.arange(46.0, dtype=torch.float64).view(23, 2)[:22] / 46
    torch.manual_seed(3)
    actgp.Loss(model, 100, stage)(X, X.square().sum(1)).backward()  # type: ignore[arg-type]
    for name, p in model.named_parameters():
        if p.grad is not None:
            torch.testing.assert_close(gradients[name], p.grad, rtol=1e-9, atol=1e-12)
            assert torch.equal(gradients[name], others[1]["gradients"][stage][1][name])


def test_losses_of_unknown_stages_are_refused() -> None:
    with pytest.raises(ValueError, match=r"stage must be one of \['network', 'posterior'\], got 'final'; choose one"):
        actgp.Loss(actgp.deep_gp(2), 10, "final")  # type: ignore[arg-type]


@pytest.fixture
def group_of_one(tmp_path: Path) -> Iterator[None]:
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.mark.usefixtures("group_of_one")
def test_a_group_of_one_rank_trains() -> None:
    X = torch.linspace(-1.0, 1.0, 12).unsqueeze(-1)
    model = actgp.deep_gp(1, num_layers=1, num_inducing=4, generator=torch.Generator().manual_seed(0))
    result = actgp.fit(model, X, X[:, 0], actgp.Recipe(network_steps=1, num_steps=1), progress=False)
    assert len(result.objectives) == 1
