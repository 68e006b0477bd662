"""Objectives, schedule and minibatches."""

import pytest
import torch
from gpytorch.likelihoods import BernoulliLikelihood
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, SubsetRandomSampler, TensorDataset

import actgp
from actgp import Recipe
from actgp.training.data import Batches, LoaderBatches, TensorBatches
from actgp.training.objectives import network_objective, posterior_objective
from actgp.training.stage import CUT, CUTS, Schedule


def model(generator: torch.Generator) -> actgp.DeepGP:
    deep = actgp.deep_gp(2, 1, 2, 8, layers=actgp.Layers(num_points=0), generator=generator).double()
    with torch.no_grad():
        for layer in deep.gp_layers:
            layer.q.raw_mean.normal_(generator=generator)
    return deep


def data(generator: torch.Generator, N: int = 10) -> tuple[torch.Tensor, torch.Tensor]:
    X = torch.randn(N, 2, dtype=torch.float64, generator=generator)
    return X, torch.sin(X[:, :1])


def test_the_elbo_is_the_models_own_for_each_row(generator: torch.Generator) -> None:
    deep, (X, y) = model(generator), data(generator)
    recipe = Recipe(objective="elbo", kl_weight=1.0, num_samples=3)
    loss, objective = posterior_objective(deep, X, y, 50, recipe, recipe.kl_weight, torch.Generator().manual_seed(1))
    elbo = deep.elbo(X, y, 50, 3, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(objective * 50, elbo)
    torch.testing.assert_close(-loss, elbo)


def test_the_predictive_objective_is_the_score_of_predictions(generator: torch.Generator) -> None:
    deep, (X, y) = model(generator), data(generator)
    recipe = Recipe(objective="predictive", kl_weight=0.3, num_samples=5)
    _, objective = posterior_objective(deep, X, y, 50, recipe, recipe.kl_weight, torch.Generator().manual_seed(1))
    paths = deep.paths(X, 5, generator=torch.Generator().manual_seed(1))
    prediction = actgp.Prediction(paths.mean.detach(), paths.variance.detach(), deep.likelihood)
    torch.testing.assert_close(objective, prediction.log_prob(y).mean() - 0.3 / 50 * deep.kl().detach())


def test_the_network_is_scored_with_its_error_as_noise(generator: torch.Generator) -> None:
    deep, (X, y) = model(generator), data(generator)
    loss, objective = network_objective(deep, X, y)
    error = (deep.mean(X) - y[:, 0]).square().mean()
    torch.testing.assert_close(loss, error)
    normal = torch.distributions.Normal(deep.mean(X), error.sqrt())
    torch.testing.assert_close(objective, normal.log_prob(y[:, 0]).mean().detach())


def test_other_networks_are_scored_by_their_likelihood(generator: torch.Generator) -> None:
    deep, (X, y) = model(generator), data(generator)
    deep.likelihood = BernoulliLikelihood()
    loss, objective = network_objective(deep, X, (y > 0).double())
    p = torch.special.ndtr(deep.mean(X))
    torch.testing.assert_close(objective, torch.where(y[:, 0] > 0, p, 1 - p).log().mean().detach())
    torch.testing.assert_close(loss, -objective)


def test_rates_fall_at_the_end_and_on_a_plateau() -> None:
    schedule = Schedule(num_steps=100, patience=6)
    assert schedule.factor(0) == 1.0
    assert schedule.factor(int(100 * (1 - schedule.decay / 2))) == pytest.approx(0.5)
    assert schedule.factor(99) == pytest.approx(1 / 30)
    for step in range(40):  # rising: no cut
        schedule.record(float(step))
    assert schedule.cuts == 0
    for _ in range(8):
        schedule.record(0.0)
    assert schedule.cuts == 1
    assert schedule.factor(0) == CUT
    assert not schedule.converged
    for _ in range(6 * CUTS):
        schedule.record(0.0)
    assert schedule.converged


def sources(generator: torch.Generator) -> dict[str, Batches]:
    X, y = data(generator, N=23)
    loader = DataLoader(TensorDataset(X, y), batch_size=5, shuffle=True, generator=torch.Generator().manual_seed(2))
    shared = DataLoader(TensorDataset(X, y), batch_size=5, shuffle=True)
    deep = model(generator)
    return {
        "tensors": TensorBatches(X, y, 5, torch.Generator().manual_seed(2)),
        "loader": LoaderBatches(loader, deep, torch.device("cpu")),
        "loader without a generator": LoaderBatches(shared, deep, torch.device("cpu")),
    }


@pytest.mark.parametrize("kind", ["tensors", "loader", "loader without a generator"])
def test_a_pass_has_every_row_once_and_can_be_taken_up_again(kind: str, generator: torch.Generator) -> None:
    torch.manual_seed(0)
    batches = sources(generator)[kind]
    assert batches.num_data == 23
    seen = torch.cat([batches.next()[0] for _ in range(5)])
    every = torch.cat([X for X, _ in batches.all()])
    assert torch.equal(seen.sort(0).values, every.sort(0).values)
    for _ in range(3):
        batches.next()
    state = batches.state()
    ahead = [batches.next() for _ in range(7)]
    another = sources(torch.Generator().manual_seed(0))[kind]
    another.restore(state)
    for (X, y), (X_again, y_again) in zip(ahead[:2], (another.next() for _ in range(2)), strict=True):
        assert torch.equal(X, X_again)
        assert torch.equal(y, y_again)
    assert another.fingerprint() == batches.fingerprint()


def test_a_look_at_all_rows_does_not_change_the_order(generator: torch.Generator) -> None:
    for kind in ("tensors", "loader"):
        looked, plain = (sources(torch.Generator().manual_seed(0))[kind] for _ in range(2))
        list(looked.all())
        before = torch.get_rng_state()
        next(iter(looked.all()))  # left early
        assert torch.equal(torch.get_rng_state(), before)
        for _ in range(8):
            assert torch.equal(looked.next()[0], plain.next()[0])


def test_fingerprints_tell_data_apart(generator: torch.Generator) -> None:
    X, y = data(generator)
    g = torch.Generator()
    prints = {
        TensorBatches(a, b, 5, g).fingerprint() for a, b in ((X, y), (X + 1e-12, y), (X, y + 1e-12), (X[:5], y[:5]))
    }
    assert len(prints) == 4


class Endless(IterableDataset):  # type: ignore[type-arg]
    def __iter__(self):  # type: ignore[no-untyped-def]
        yield torch.zeros(2), torch.zeros(1)


def test_bad_loaders_are_refused(generator: torch.Generator) -> None:
    deep, (X, y) = model(generator), data(generator)
    cpu = torch.device("cpu")
    with pytest.raises(
        TypeError, match="a DataLoader must have a data set of known length, got an iterable one; pass num_data=, the"
    ):
        LoaderBatches(DataLoader(Endless()), deep, cpu)
    with pytest.raises(ValueError, match="must give at least one batch, got 10 rows in 0 batches; pass some data"):
        LoaderBatches(DataLoader(TensorDataset(X, y), batch_size=20, drop_last=True), deep, cpu)
    with pytest.raises(TypeError, match=r"must give pairs of tensors \(X, y\), got list; use e.g. TensorDataset"):
        LoaderBatches(DataLoader(TensorDataset(X)), deep, cpu).next()
    with pytest.raises(ValueError, match="X must be finite"):
        LoaderBatches(DataLoader(TensorDataset(X * torch.nan, y)), deep, cpu).next()


@pytest.mark.parametrize("name", ["y", "label"])
def test_batches_may_be_dictionaries(name: str, generator: torch.Generator) -> None:
    X, y = data(generator)
    rows = [{"features": x, name: t} for x, t in zip(X, y, strict=True)]
    batches = LoaderBatches(DataLoader(rows, batch_size=4), model(generator), torch.device("cpu"))  # type: ignore[arg-type]
    assert torch.equal(torch.cat([x for x, _ in batches.all()]), X)
    assert torch.equal(torch.cat([t for _, t in batches.all()]).view_as(y), y)
    nameless = [{"features": x, "z": t} for x, t in zip(X, y, strict=True)]
    with pytest.raises(
        TypeError, match=r"got dict; use e.g. TensorDataset\(X, y\), or dictionaries with one of y, target"
    ):
        LoaderBatches(DataLoader(nameless), model(generator), torch.device("cpu")).next()  # type: ignore[arg-type]


class Stream(IterableDataset):  # type: ignore[type-arg]
    def __init__(self, X: torch.Tensor, y: torch.Tensor) -> None:
        self.X, self.y = X, y

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(zip(self.X, self.y, strict=True))


def test_streams_have_the_length_that_is_said(generator: torch.Generator) -> None:
    X, y = data(generator)
    deep, cpu, loader = model(generator), torch.device("cpu"), DataLoader(Stream(X, y), batch_size=4)
    batches = LoaderBatches(loader, deep, cpu, num_data=10)
    assert torch.equal(torch.cat([batches.next()[0] for _ in range(3)]), X)
    assert torch.equal(batches.next()[0], X[:4])  # again from the beginning
    miscounted = LoaderBatches(loader, deep, cpu, num_data=40)
    for _ in range(3):
        miscounted.next()
    with pytest.raises(
        ValueError, match="num_data must be the rows of a pass, over all ranks, got 40, where a pass has"
    ):
        miscounted.next()
    empty = LoaderBatches(DataLoader(Stream(X[:0], y[:0])), deep, cpu, num_data=0)
    with pytest.raises(
        ValueError, match="must give at least one batch in each pass, got none of 0 rows; give it a data"
    ):
        empty.next()
    recipe = Recipe(network_steps=2, num_steps=2)
    assert len(actgp.fit(deep, loader, recipe=recipe, num_data=10, progress=False).objectives) == 2


def test_pixels_of_whole_numbers_are_for_the_backbone_to_convert(generator: torch.Generator) -> None:
    class Scaled(torch.nn.Module):
        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return pixels.flatten(1).float() / 255

    images = torch.randint(0, 256, (30, 1, 3, 3), dtype=torch.uint8, generator=generator)
    labels = torch.arange(30) % 3
    backbone = torch.nn.Sequential(Scaled(), torch.nn.Linear(9, 4))
    deep = actgp.hybrid(backbone, images, num_outputs=3, num_inducing=4)
    loader = DataLoader(TensorDataset(images, labels), batch_size=10)
    recipe = Recipe(network_steps=2, num_steps=2)
    assert len(actgp.fit(deep, loader, recipe=recipe, progress=False).objectives) == 2
    assert deep.predict(images).probabilities.shape == (30, 3)


@pytest.mark.parametrize("in_batches", [False, True])
def test_rows_that_a_sampler_leaves_out_do_not_count(in_batches: bool, generator: torch.Generator) -> None:
    X = torch.randn(23, 2, dtype=torch.float64, generator=generator)
    sampler = SubsetRandomSampler(range(8))
    options = (
        {"batch_sampler": BatchSampler(sampler, 5, False)} if in_batches else {"batch_size": 5, "sampler": sampler}
    )
    loader = DataLoader(TensorDataset(X, X.sum(1)), **options)
    batches = LoaderBatches(loader, model(generator), torch.device("cpu"))
    assert batches.num_data == sum(len(X) for X, _ in batches.all()) == 8
