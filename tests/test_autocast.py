"""Under autocast, everything of ours is computed in full precision: the same numbers, bit for bit, as without it."""

from collections.abc import Callable, Iterator

import pytest
import torch
from gpytorch.likelihoods import BernoulliLikelihood, GaussianLikelihood, SoftmaxLikelihood
from torch import Tensor, nn
from torch.distributions import Categorical

import actgp
from actgp.likelihoods import OneDimensionalLikelihood

pytestmark = pytest.mark.usefixtures("small_conversions")


def data(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(0)
    X = torch.randn(40, 4, generator=g, dtype=torch.float64)
    return X.to(dtype), torch.sin(X[:, 0]).to(dtype)


def model(dtype: torch.dtype, num_points: int = 8, **options: object) -> actgp.DeepGP:
    g = torch.Generator().manual_seed(1)
    layers = actgp.Layers(num_points=num_points)
    deep = actgp.deep_gp(4, num_layers=2, num_inducing=16, layers=layers, generator=g, **options)  # type: ignore[arg-type]
    with torch.no_grad():
        for layer in deep.gp_layers:
            layer.q.raw_mean.copy_(torch.randn(layer.q.mean.shape, generator=g))
    return deep.to(dtype)


@pytest.fixture(params=[0, 8], ids=["units", "units and points"])
def deep(request: pytest.FixtureRequest, dtype: torch.dtype) -> actgp.DeepGP:
    return model(dtype, request.param)


CALLS: dict[str, Callable[[actgp.DeepGP, Tensor, Tensor], Tensor]] = {
    "mean": lambda m, X, y: m.mean(X),
    "hidden means": lambda m, X, y: m.hidden_means(X)[-1],
    "network": lambda m, X, y: m.network()(X),
    "elbo": lambda m, X, y: m.elbo(X, y, 100, generator=torch.Generator().manual_seed(2)),
    "kl": lambda m, X, y: m.kl(),
    "predicted mean": lambda m, X, y: m.predict(X).mean,
    "predicted variance": lambda m, X, y: m.predict(X).variance,
    "log density": lambda m, X, y: m.predict(X).log_prob(y),
    "interval": lambda m, X, y: torch.stack(m.predict(X).interval()),
    "drawn function": lambda m, X, y: m.sample_functions(1, generator=torch.Generator().manual_seed(3))[0](X),
    "layer": lambda m, X, y: torch.cat(m.gp_layers[0](X)),
    "joint": lambda m, X, y: m.gp_layers[0].joint(X).covariance_matrix,
    "unexplained": lambda m, X, y: m.gp_layers[0].unexplained(X),
    "Kuf": lambda m, X, y: m.gp_layers[0].features.Kuf(m.gp_layers[0].kernel, X),
    "Kuu": lambda m, X, y: m.gp_layers[0].features.Kuu(m.gp_layers[0].kernel),
    "kernel": lambda m, X, y: m.gp_layers[0].kernel(X).to_dense(),
    "diagnosis": lambda m, X, y: torch.tensor(actgp.diagnose(m, X).layers[0].unexplained),
}


@pytest.fixture(params=[torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
def autocast(request: pytest.FixtureRequest) -> Iterator[Callable[[], torch.autocast]]:
    yield lambda: torch.autocast("cpu", request.param)


@pytest.mark.parametrize("name", CALLS)
def test_every_public_computation_is_the_same(
    name: str, deep: actgp.DeepGP, dtype: torch.dtype, autocast: Callable[[], torch.autocast]
) -> None:
    X, y = data(dtype)
    expected = CALLS[name](deep, X, y)
    with autocast():
        found = CALLS[name](deep, X, y)
    assert found.dtype == expected.dtype
    assert torch.equal(found, expected)


def test_gradients_of_units_are_the_same_also_when_they_are_found_under_autocast(
    deep: actgp.DeepGP, dtype: torch.dtype
) -> None:
    X, y = data(dtype)

    def gradients() -> list[Tensor]:
        loss = -deep.elbo(X, y, 100, generator=torch.Generator().manual_seed(2))
        return list(torch.autograd.grad(loss, list(deep.parameters()), allow_unused=True, materialize_grads=True))

    expected = gradients()
    with torch.autocast("cpu", torch.bfloat16):
        found = gradients()
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("classes", [2, 3])
def test_class_probabilities_are_the_same(classes: int) -> None:
    X, _ = data(torch.float32)
    mixing = SoftmaxLikelihood(num_classes=classes, num_features=3) if classes == 3 else BernoulliLikelihood()
    deep = model(torch.float32, num_outputs=3 if classes == 3 else 1, likelihood=mixing)
    expected = deep.predict(X).probabilities
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(deep.predict(X).probabilities, expected)


class OrderedLikelihood(OneDimensionalLikelihood):
    """Three labels in order, p(y ≤ k | f) = Φ(k − ½ − f)."""

    def forward(self, function_samples: Tensor, *args: object, **kwargs: object) -> Categorical:
        edges = function_samples.new_tensor([-0.5, 0.5])
        below = torch.special.ndtr(edges - function_samples.unsqueeze(-1))
        ones = torch.ones_like(below[..., :1])
        return Categorical(probs=torch.diff(below, dim=-1, prepend=0 * ones, append=ones))


def test_probabilities_of_ordered_labels_are_the_same() -> None:
    X, _ = data(torch.float32)
    deep = model(torch.float32, likelihood=OrderedLikelihood())
    expected = deep.predict(X).probabilities
    prediction = deep.predict(X)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(prediction.probabilities, expected)
    assert prediction.interval(0.5)[0].dtype == torch.float32


def test_exact_and_collapsed_models_are_the_same() -> None:
    X, y = data(torch.float32)
    for build in (
        lambda: actgp.GPR(X, y, actgp.ArcCosine(4)),
        lambda: actgp.SGPR(X, y, actgp.ArcCosine(4), actgp.InducingPoints(X[:10])),
    ):
        expected = build().predict(X).variance
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.equal(build().predict(X).variance, expected)


def test_training_and_conversion_are_the_same() -> None:
    X, y = data(torch.float32)
    recipe = actgp.Recipe(network_steps=5, num_steps=5)
    net = nn.Sequential(nn.Linear(4, 8), nn.Softplus(), nn.Linear(8, 1))

    def results() -> tuple[Tensor, Tensor]:
        trained = model(torch.float32)
        actgp.fit(trained, X, y, recipe, generator=torch.Generator().manual_seed(0), progress=False)
        converted, _ = actgp.convert_weights(net, X, num_inducing=8, num_levels=6, tolerance=float("inf"))
        return trained.mean(X), converted.mean(X)

    expected = results()
    with torch.autocast("cpu", torch.bfloat16):
        found = results()
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


class Watching(nn.Module):
    """Sees in what precision its products are computed."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.seen: list[torch.dtype] = []

    def forward(self, X: Tensor) -> Tensor:
        h = self.linear(X)
        self.seen.append(h.dtype)
        return h


def test_a_backbone_follows_autocast_and_what_is_behind_it_does_not() -> None:
    X, y = data(torch.float32)
    watching = Watching().requires_grad_(False)
    deep = actgp.DeepGP(model(torch.float32).gp_layers, GaussianLikelihood(), watching)
    with torch.autocast("cpu", torch.bfloat16):
        h = watching(X).float()
        for call in (deep.mean, lambda X: deep.predict(X).mean, deep.network(), lambda X: deep.elbo(X, y, 40)):
            assert call(X).dtype == torch.float32
    assert watching.seen and set(watching.seen) == {torch.bfloat16}
    behind = actgp.DeepGP(deep.gp_layers, GaussianLikelihood())
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(deep.mean(X), behind.mean(h))
