import pytest
import torch
from gpytorch.likelihoods import (
    BernoulliLikelihood,
    GaussianLikelihood,
    Likelihood,
    SoftmaxLikelihood,
    StudentTLikelihood,
)
from gpytorch.likelihoods.poisson_likelihood import PoissonLikelihood
from torch.autograd import gradcheck

import actgp


def randomise(model: actgp.DeepGP, scale: float = 0.5, seed: int = 0) -> actgp.DeepGP:
    """Gives every q(u) a mean and a covariance of its own."""
    g = torch.Generator().manual_seed(seed)
    for layer in model.layers:
        mean, tril = layer.q.mean, layer.q.raw_scale_tril
        with torch.no_grad():
            mean.copy_(scale * torch.randn(mean.shape, generator=g))
            tril.copy_(0.05 * torch.randn(tril.shape, generator=g) - 1.0 * torch.eye(tril.shape[-1]))
    return model


def deep(dtype: torch.dtype = torch.float64, **kwargs: object) -> actgp.DeepGP:
    options = {"num_layers": 3, "num_inducing": 10} | kwargs
    model = actgp.deep_gp(2, generator=torch.Generator().manual_seed(0), **options)  # type: ignore[arg-type]
    return randomise(model.to(dtype))


def inputs(N: int, dtype: torch.dtype = torch.float64, seed: int = 1) -> torch.Tensor:
    return torch.randn(N, 2, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def test_the_matched_kernel_explains_more_of_itself(generator: torch.Generator) -> None:
    X = torch.randn(50, 6, generator=generator)
    unexplained = []
    for kernel in ("arccosine", "matched"):
        model = actgp.deep_gp(
            6,
            num_layers=1,
            num_inducing=60,
            layers=actgp.Layers(kernel=kernel, activation="softplus"),
            generator=generator,
        )  # type: ignore[arg-type]
        unexplained.append(actgp.diagnose(model, X).layers[0].unexplained)
    assert unexplained[1] < 0.5 * unexplained[0]


def test_one_layer_is_an_svgp(dtype: torch.dtype, tolerance: dict[str, float]) -> None:
    dgp = deep(dtype, num_layers=1)
    layer = dgp.layers[0]
    svgp = actgp.SVGP(layer.kernel, layer.features, dgp.likelihood).to(dtype)
    svgp.layer.load_state_dict(layer.state_dict())
    X = inputs(9, dtype)
    y = X[:, 0]
    torch.testing.assert_close(dgp.elbo(X, y, 30), svgp.elbo(X, y, 30), **tolerance)
    torch.testing.assert_close(dgp.predict(X).mean, svgp.predict(X).mean, **tolerance)
    torch.testing.assert_close(dgp.predict(X).variance, svgp.predict(X).variance, **tolerance)
    assert len(dgp.predict(X, num_samples=50).component_means) == 1


def test_the_network_is_the_mean(dtype: torch.dtype) -> None:
    cases = (
        (actgp.Layers(), 1),
        (actgp.Layers(prior_mean="zero"), 1),
        (actgp.Layers(), 3),
        (actgp.Layers(hidden_dim=5), 1),
        (actgp.Layers(activation="relu"), 1),
    )
    for layers, num_outputs in cases:
        with pytest.warns(actgp.SpectralMismatchWarning) if layers.activation == "relu" else torch.no_grad():
            dgp = deep(dtype, layers=layers, num_outputs=num_outputs)
        X = inputs(50, dtype)
        difference = (dgp.network()(X) - dgp.mean(X)).abs().max().item()
        assert difference < {torch.float32: 1e-5, torch.float64: 1e-12}[dtype]


def test_the_network_with_inducing_points_has_the_kernel_as_activation() -> None:
    Z = inputs(6)
    layers = [actgp.GPLayer(actgp.ArcCosine(2), actgp.InducingPoints(Z.float()), 2) for _ in range(2)]
    dgp = randomise(actgp.DeepGP(layers, GaussianLikelihood(), None).double())
    torch.testing.assert_close(dgp.network()(inputs(5)), dgp.mean(inputs(5)), rtol=1e-12, atol=1e-12)


def test_the_network_is_a_copy_that_can_be_exported() -> None:
    dgp = deep()
    X = inputs(7)
    network = dgp.network()
    before = network(X)
    rows = ({0: torch.export.Dim("rows", min=2, max=1_000)},)
    exported = torch.export.export(network, (X,), dynamic_shapes=rows, strict=False).module()
    torch.testing.assert_close(exported(X), before)
    torch.testing.assert_close(exported(inputs(4)), network(inputs(4)))
    with torch.no_grad():
        dgp.layers[0].q.raw_mean.add_(1.0)
    assert torch.equal(network(X), before)


def test_an_identity_prior_mean_is_a_skip_connection() -> None:
    zero, identity = (deep(num_layers=2, layers=actgp.Layers(prior_mean=mean)) for mean in ("zero", "identity"))
    X = inputs(5)
    first = identity.layers[0](X)
    torch.testing.assert_close(first.mean, zero.layers[0](X).mean + X)
    torch.testing.assert_close(first.variance, zero.layers[0](X).variance)
    torch.testing.assert_close(identity.layers[0].joint(X).mean, first.mean.T)


def simulate(dgp: actgp.DeepGP, X: torch.Tensor, count: int) -> torch.Tensor:
    """Draws of the last layer's f, each row and draw on a path of its own, by hand."""
    g = torch.Generator().manual_seed(5)
    h = X.repeat(count, 1)
    for layer in dgp.layers:
        mean, variance = layer(h)
        h = (mean + variance.sqrt() * torch.randn(mean.shape, dtype=mean.dtype, generator=g)).detach()
    return h.reshape(count, len(X), -1)


def test_moments_against_direct_simulation() -> None:
    dgp, X = deep(), inputs(4)
    f = simulate(dgp, X, 40_000)[..., 0]
    prediction = dgp.predict(X, num_samples=5_000)
    sd = f.std(0)
    assert ((prediction.latent_mean - f.mean(0)).abs() < 0.05 * sd).all()
    torch.testing.assert_close(prediction.latent_variance, f.var(0), rtol=0.1, atol=0)
    noise = (dgp.likelihood.noise + 0.01 * dgp.likelihood.outlier_noise).item()
    torch.testing.assert_close(prediction.epistemic, prediction.latent_variance)
    torch.testing.assert_close(prediction.variance, prediction.latent_variance + noise)


def test_bound_against_brute_force() -> None:
    dgp, X = deep(likelihood=GaussianLikelihood()), inputs(6)
    y = X[:, 0]
    f = simulate(dgp, X, 40_000)[..., 0]
    log_probs = torch.distributions.Normal(f, dgp.likelihood.noise.sqrt().detach()).log_prob(y)
    expected = log_probs.mean(0).sum() * 30 / 6 - dgp.kl()
    error = log_probs.sum(-1).std() * 5 / 40_000**0.5
    ours = [dgp.elbo(X, y, 30, num_samples=500, generator=torch.Generator().manual_seed(i)).item() for i in range(20)]
    assert torch.tensor(ours).mean().item() == pytest.approx(
        expected.item(), abs=4 * (error.item() + torch.tensor(ours).std().item() / 20**0.5)
    )


def test_gradients_of_the_bound() -> None:
    dgp, X = deep(num_layers=2, num_inducing=4), inputs(3)
    y = X[:, 0]

    def bound(m: torch.Tensor, X: torch.Tensor) -> torch.Tensor:
        g = torch.Generator().manual_seed(0)
        parameters = {"layers.0.q.raw_mean": m}
        return torch.func.functional_call(Bound(dgp), {f"dgp.{k}": v for k, v in parameters.items()}, (X, y, g))

    assert gradcheck(bound, (dgp.layers[0].q.mean.detach().clone().requires_grad_(), X.clone().requires_grad_()))


class Bound(torch.nn.Module):
    def __init__(self, dgp: actgp.DeepGP) -> None:
        super().__init__()
        self.dgp = dgp

    def forward(self, X: torch.Tensor, y: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        return self.dgp.elbo(X, y, 3, generator=generator)


def test_prediction_is_chunked_and_repeatable(monkeypatch: pytest.MonkeyPatch) -> None:
    dgp, X = deep(), inputs(50)
    whole = dgp.predict(X)
    assert torch.equal(dgp.predict(X).mean, whole.mean)
    sizes = []
    original = actgp.GPLayer.marginals

    def watch(self: actgp.GPLayer, X: torch.Tensor, constants: object) -> object:
        sizes.append(len(X))
        return original(self, X, constants)  # type: ignore[arg-type]

    monkeypatch.setattr(actgp.GPLayer, "marginals", watch)
    monkeypatch.setattr("actgp.models.deep.CHUNK", 2_000)
    parts = dgp.predict(X)
    assert max(sizes) <= 2_000 // 10
    torch.testing.assert_close(parts.mean, whole.mean)
    torch.testing.assert_close(parts.variance, whole.variance)


@pytest.mark.parametrize(
    "likelihood",
    [
        GaussianLikelihood,
        BernoulliLikelihood,
        StudentTLikelihood,
        PoissonLikelihood,
        lambda: SoftmaxLikelihood(num_classes=3, mixing_weights=False),
    ],
    ids=["gaussian", "bernoulli", "student", "poisson", "softmax"],
)
def test_every_likelihood_trains_and_predicts(likelihood: object, dtype: torch.dtype) -> None:
    chosen: Likelihood = likelihood()  # type: ignore[operator]
    P = 3 if isinstance(chosen, SoftmaxLikelihood) else 1
    dgp = deep(dtype, num_layers=2, num_outputs=P, likelihood=chosen)
    X = inputs(40, dtype)
    y = (X[:, 0] > 0).long() if not isinstance(chosen, GaussianLikelihood) else X[:, 0]
    optimiser = torch.optim.Adam(dgp.parameters(), lr=0.02)
    g = torch.Generator().manual_seed(0)
    losses = []
    for _ in range(40):
        optimiser.zero_grad()
        loss = -dgp.elbo(X, y, 40, generator=g)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert sum(losses[-5:]) < sum(losses[:5])
    prediction = dgp.predict(X, num_samples=5)
    assert torch.isfinite(prediction.log_prob(y)).all()
    assert prediction.mean.dtype == dtype


def test_a_backbone_comes_first() -> None:
    backbone = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 2))
    layer = actgp.GPLayer(actgp.ArcCosine(2), actgp.ActivatedFeatures(2, 8), 1)
    dgp = randomise(actgp.DeepGP([layer], GaussianLikelihood(), backbone))
    images = torch.randn(5, 3, 2, 2, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(dgp.mean(images), dgp.network()(images))
    assert dgp.predict(images).mean.shape == (5,)
    dgp.elbo(images, torch.zeros(5), 5).backward()
    assert backbone[1].weight.grad.abs().max() > 0


def test_a_prediction_does_not_depend_on_the_inputs_beside_it() -> None:
    model = deep(num_layers=3)
    X = inputs(7)
    together = model.predict(X, num_samples=6)
    for i in range(7):
        alone = model.predict(X[i : i + 1], num_samples=6)
        torch.testing.assert_close(alone.component_means[:, 0], together.component_means[:, i])
    another = model.predict(X, num_samples=6, generator=torch.Generator().manual_seed(1))
    assert not torch.allclose(another.component_means, together.component_means)


def test_the_papers_model_in_a_call() -> None:
    model = actgp.deep_gp(4, layers=actgp.Layers(num_points=0, activation=actgp.Softplus(3.0), prior_mean="zero"))
    assert [layer.num_outputs for layer in model.layers] == [4, 4, 1]
    assert all(layer.features.num_inducing == 128 for layer in model.layers)
    assert all(layer.features.num_levels == 20 for layer in model.layers)
    assert all(layer.features.activation.beta.item() == 3.0 for layer in model.layers)
    assert all(isinstance(layer.kernel, actgp.ArcCosine) for layer in model.layers)
    assert all(layer.prior_mean == "zero" for layer in model.layers)


def test_half_of_the_inducing_variables_are_points_by_default() -> None:
    for M, K in ((128, 64), (9, 4)):
        features = actgp.deep_gp(4, num_inducing=M).layers[0].features
        assert features.num_inducing == M
        assert features.blocks == (M - K, K)
    assert isinstance(actgp.deep_gp(4, num_inducing=1).layers[0].features, actgp.ActivatedFeatures)
    with pytest.raises(ValueError, match="num_points must be less than num_inducing = 5, got 5; leave some"):
        actgp.deep_gp(4, num_inducing=5, layers=actgp.Layers(num_points=5))


def test_skip_connections_are_the_default_where_they_fit() -> None:
    assert [layer.prior_mean for layer in actgp.deep_gp(4).gp_layers] == ["identity", "identity", "zero"]
    narrow = actgp.deep_gp(4, layers=actgp.Layers(hidden_dim=3))
    assert [layer.prior_mean for layer in narrow.gp_layers] == ["zero", "zero", "zero"]
    assert isinstance(actgp.deep_gp(4).gp_layers[0].kernel, actgp.ArcCosine)


def test_bad_deep_models_are_refused() -> None:
    layer = actgp.GPLayer(actgp.ArcCosine(2), actgp.ActivatedFeatures(2, 5), 3)
    with pytest.raises(
        ValueError, match="layer 2 must have as many inputs as layer 1 has outputs, got 2 and 3; rebuild"
    ):
        actgp.DeepGP([layer, layer], GaussianLikelihood())
    for layers in ([], [torch.nn.Linear(2, 2)]):
        with pytest.raises(TypeError, match=r"layers must be one or more GPLayers, got \[.*\]; build them"):
            actgp.DeepGP(layers, GaussianLikelihood())  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match="identity prior mean needs as many outputs as inputs, got 3 and 2; use prior_mean"
    ):
        actgp.GPLayer(actgp.ArcCosine(2), actgp.ActivatedFeatures(2, 5), 3, "identity")
    with pytest.raises(ValueError, match="prior_mean must be one of .*, got 'linear'"):
        actgp.GPLayer(actgp.ArcCosine(2), actgp.ActivatedFeatures(2, 5), 2, "linear")  # type: ignore[arg-type]
    softmax = SoftmaxLikelihood(num_classes=3, mixing_weights=False)
    with pytest.raises(ValueError, match="softmax likelihood's number of features 3, got 1; make them agree"):
        actgp.deep_gp(2, likelihood=softmax)
    for name in ("num_layers", "num_inducing"):
        with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
            actgp.deep_gp(2, **{name: 0})
    with pytest.raises(TypeError, match="layers must be an actgp.Layers or None, got dict; pass e.g. actgp.Layers"):
        actgp.deep_gp(2, layers={"kernel": "matched"})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "bad", "message"),
    [
        ("activation", "sine", "activation must be one of .*, got 'sine'"),
        ("activation", torch.sin, "activation must be a name or an actgp activation, got builtin_function"),
        ("kernel", "rbf", "kernel must be one of .*, got 'rbf'"),
        ("num_levels", 0, "num_levels must be at least 1, got 0"),
        ("num_levels", None, "num_levels must be an integer, got None"),
        ("num_points", -1, "num_points must be at least 0, got -1"),
        ("hidden_dim", 0, "hidden_dim must be at least 1, got 0"),
        ("prior_mean", "linear", "prior_mean must be one of .*, got 'linear'"),
        ("horizon", 0.0, "horizon must be .*, got 0"),
    ],
)
def test_layers_that_cannot_be_built_are_refused(field: str, bad: object, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        actgp.Layers(**{field: bad})  # type: ignore[arg-type]


def test_hidden_layers_of_wide_tables_are_narrower() -> None:
    assert [layer.num_outputs for layer in actgp.deep_gp(16, num_inducing=4).gp_layers] == [16, 16, 1]
    wide = actgp.deep_gp(17, num_inducing=4)
    assert [layer.num_outputs for layer in wide.gp_layers] == [16, 16, 1]
    assert wide.likelihood.slopes.shape == (16,)


def test_features_of_a_users_own_train_and_have_a_network() -> None:
    class Doubled(actgp.InducingFeatures):
        """Function values, twice as large."""

        num_inducing, input_dim = 3, 2

        def Kuu(self, kernel: actgp.ZonalKernel) -> torch.Tensor:
            return 4 * kernel(self.points.double()).to_dense()

        def cross(self, kernel: actgp.ZonalKernel, X: torch.Tensor) -> torch.Tensor:
            return 2 * kernel(self.points.to(X), X).to_dense()

        def complaints(self, kernel: actgp.ZonalKernel) -> list[str]:
            return []

        points = inputs(3)

    dgp = actgp.DeepGP([actgp.GPLayer(actgp.ArcCosine(2), Doubled())], GaussianLikelihood()).double()
    X = inputs(20)
    result = actgp.fit(dgp, X, torch.sin(X[:, 0]), actgp.Recipe(network_steps=5, num_steps=5), progress=False)
    assert result.network is not None
    torch.testing.assert_close(dgp.network()(X), dgp.mean(X))
    assert not torch.allclose(dgp.network()(X), result.network(X))
    with pytest.raises(TypeError, match="drawn with activated features or inducing points, got Doubled; use those"):
        dgp.sample_functions(1)


def test_bad_inputs_of_a_backbone_are_refused() -> None:
    layer = actgp.GPLayer(actgp.ArcCosine(2), actgp.ActivatedFeatures(2, 8))
    dgp = actgp.DeepGP([layer], GaussianLikelihood(), torch.nn.Linear(3, 5))
    for call in (dgp.mean, dgp.predict):
        with pytest.raises(ValueError, match="X must be finite"):
            call(torch.full((2, 3), torch.nan))
        with pytest.raises(TypeError, match="precision of the model, float32, got float64"):
            call(torch.zeros(2, 3).double())
        with pytest.raises(ValueError, match=r"X must have shape \[N, …\] with at least one row, got \[0, 3\]; pass"):
            call(torch.zeros(0, 3))
        with pytest.raises(ValueError, match="the backbone's output must have 2 columns, got 5"):
            call(torch.zeros(2, 3))


def test_bad_inputs_are_refused() -> None:
    dgp = deep()
    with pytest.raises(TypeError, match="X must be a torch.Tensor, got list"):
        dgp.predict([[0.0, 0.0]])  # type: ignore[arg-type]
    for call in (dgp.mean, dgp.predict, lambda X: dgp.elbo(X, torch.zeros(3).double(), 3)):
        with pytest.raises(ValueError, match="X must be finite"):
            call(torch.full((3, 2), torch.nan).double())
        with pytest.raises(ValueError, match="X must have 2 columns, got 5"):
            call(torch.zeros(3, 5).double())
        with pytest.raises(TypeError, match="precision of the model, float64, got float32"):
            call(torch.zeros(3, 2))
    with pytest.raises(ValueError, match="num_samples must be at least 1, got 0"):
        dgp.predict(inputs(3), num_samples=0)
    with pytest.raises(ValueError, match="num_data must be at least 3, got 2"):
        dgp.elbo(inputs(3), torch.zeros(3), 2)


@pytest.mark.parametrize("num_points", [0, 8])
@pytest.mark.parametrize("kernel", ["arccosine", "matched"])
def test_predictions_are_the_same_in_inference_mode(kernel: str, num_points: int) -> None:
    g = torch.Generator().manual_seed(0)
    model = actgp.deep_gp(
        3, num_layers=2, num_inducing=16, layers=actgp.Layers(kernel=kernel, num_points=num_points), generator=g
    )
    X = torch.randn(20, 3, generator=g)
    expected = model.predict(X)
    with torch.inference_mode():
        found = model.predict(X)
        torch.testing.assert_close(model.mean(X), model.network()(X))
    assert torch.equal(found.mean, expected.mean)
    assert torch.equal(found.variance, expected.variance)
