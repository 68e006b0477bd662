from pathlib import Path

import gpytorch
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

import actgp


def inputs(N: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(N, 2, dtype=dtype, generator=torch.Generator().manual_seed(0))


def svgp(likelihood: Likelihood, dtype: torch.dtype, features: str = "activated", M: int = 20) -> actgp.SVGP:
    g = torch.Generator().manual_seed(0)
    u = (
        actgp.ActivatedFeatures(2, M, generator=g)
        if features == "activated"
        else actgp.InducingPoints(torch.randn(M, 2, generator=g))
    )
    return actgp.SVGP(actgp.ArcCosine(2), u, likelihood).to(dtype)


def targets_for(likelihood: Likelihood, X: torch.Tensor) -> torch.Tensor:
    f = 2 * torch.sin(2 * X[:, 0])
    if isinstance(likelihood, BernoulliLikelihood):
        return (f > 0).long()
    if isinstance(likelihood, SoftmaxLikelihood):
        return (f > 0.7).long() + (f > -0.7).long()
    if isinstance(likelihood, PoissonLikelihood):
        return torch.nn.functional.softplus(2 * f).round()
    return f


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
@pytest.mark.parametrize("features", ["activated", "points"])
def test_every_likelihood_trains_and_predicts(likelihood: object, features: str, dtype: torch.dtype) -> None:
    model = svgp(likelihood(), dtype, features)  # type: ignore[operator]
    X = inputs(60, dtype)
    y = targets_for(model.likelihood, X)
    before = model.elbo(X, y, 60, generator=torch.Generator().manual_seed(0)).item()
    naive = model.predict(X).log_prob(y).mean().item()
    result = actgp.fit(
        model,
        X,
        y,
        actgp.Recipe(network_steps=60, num_steps=20, objective="elbo", kl_weight=1.0),
        generator=torch.Generator().manual_seed(0),
    )
    after = model.elbo(X, y, 60, generator=torch.Generator().manual_seed(0)).item()
    assert result.skipped == 0
    assert after > before + 1
    prediction = model.predict(X)
    assert prediction.log_prob(y).mean().item() > naive
    assert prediction.mean.dtype == dtype
    for values in (prediction.mean, prediction.variance, prediction.latent_variance):
        assert torch.isfinite(values).all()
    assert (prediction.variance > 0).all()


def test_observed_and_latent_predictions_differ_by_the_noise(dtype: torch.dtype, tolerance: dict[str, float]) -> None:
    model = svgp(GaussianLikelihood(), dtype)
    prediction = model.predict(inputs(5, dtype))
    noise = model.likelihood.noise.detach().expand(5)
    torch.testing.assert_close(prediction.variance - prediction.latent_variance, noise, **tolerance)
    torch.testing.assert_close(prediction.aleatoric, noise, **tolerance)
    torch.testing.assert_close(prediction.epistemic, prediction.latent_variance, **tolerance)


def test_a_plain_gpytorch_user_may_call_the_exact_model() -> None:
    X = inputs(20, torch.float64)
    model = actgp.GPR(X, X[:, 0], actgp.ArcCosine(2))
    joint = model.eval()(X[:4] + 0.1)
    assert isinstance(joint, gpytorch.distributions.MultivariateNormal)
    torch.testing.assert_close(joint.mean, model.predict(X[:4] + 0.1).mean)


def test_exact_models_keep_the_users_precision_at_the_border(dtype: torch.dtype) -> None:
    X = inputs(20, dtype)
    y = X[:, 0]
    features = actgp.ActivatedFeatures(2, 10)
    for model in (actgp.GPR(X, y, actgp.ArcCosine(2)), actgp.SGPR(X, y, actgp.ArcCosine(2), features)):
        assert model.predict(X).mean.dtype == dtype


def test_predicting_at_the_training_inputs_does_not_warn() -> None:
    X = inputs(10, torch.float32)
    actgp.GPR(X, X[:, 0], actgp.ArcCosine(2)).predict(X)


def test_repeated_rows_and_tiny_noise_do_not_break_exact_models() -> None:
    X = torch.zeros(30, 2)
    y = torch.ones(30)
    likelihood = GaussianLikelihood()
    likelihood.noise = 1.1e-4
    for model in (
        actgp.GPR(X, y, actgp.ArcCosine(2), likelihood),
        actgp.SGPR(X, y, actgp.ArcCosine(2), actgp.InducingPoints(X), likelihood),
    ):
        assert model.predict(X[:1]).mean.item() == pytest.approx(1.0, abs=1e-3)


def test_exact_predictions_follow_the_parameters() -> None:
    X = inputs(20, torch.float64)
    model = actgp.GPR(X, X[:, 0], actgp.ArcCosine(2))
    before = model.predict(X).mean
    model.kernel.variance = 1e-3
    fresh = actgp.GPR(X, X[:, 0], model.kernel, model.likelihood)
    assert not torch.allclose(model.predict(X).mean, before)
    torch.testing.assert_close(model.predict(X).mean, fresh.predict(X).mean)


@pytest.mark.parametrize("input_dim", [1, 2])
def test_changing_the_precision_does_not_change_the_function(input_dim: int) -> None:
    g = torch.Generator().manual_seed(0)
    X = torch.randn(100, input_dim, generator=g)
    features = actgp.ActivatedFeatures(input_dim, 50, generator=g)
    model = actgp.SVGP(actgp.ArcCosine(input_dim), features, GaussianLikelihood())
    actgp.fit(model, X, torch.sin(2 * X[:, 0]), actgp.Recipe(network_steps=100, num_steps=50), generator=g)
    single = model.predict(X)
    double = model.double().predict(X.double())
    torch.testing.assert_close(single.mean.double(), double.mean, rtol=0, atol=5e-3)
    torch.testing.assert_close(single.variance.double(), double.variance, rtol=2e-2, atol=1e-3)


def test_precisions_that_differ_are_refused_before_anything_changes(dtype: torch.dtype) -> None:
    other = {torch.float32: torch.float64, torch.float64: torch.float32}[dtype]
    model = svgp(GaussianLikelihood(), dtype)
    X = inputs(5, other)
    for call in (
        lambda: model.predict(X),
        lambda: model.elbo(X, X[:, 0], 5),
        lambda: actgp.fit(model, X, X[:, 0]),
    ):
        with pytest.raises(
            TypeError, match=r"X must have the precision of the model, float.., got float..; convert one"
        ):
            call()


def test_exact_models_survive_a_change_of_precision() -> None:
    X = inputs(20, torch.float64)
    for model in (
        actgp.GPR(X, X[:, 0], actgp.ArcCosine(2)),
        actgp.SGPR(X, X[:, 0], actgp.ArcCosine(2), actgp.ActivatedFeatures(2, 10)),
    ):
        before = model.predict(X).mean
        torch.testing.assert_close(model.float().predict(X).mean, before, rtol=1e-2, atol=1e-2)


def test_huge_inputs_do_not_break_the_bound() -> None:
    X = inputs(50, torch.float64) * 1e7
    likelihood = GaussianLikelihood()
    likelihood.noise = 1e-3
    model = actgp.SGPR(X, X[:, 0] / 1e7, actgp.ArcCosine(2), actgp.ActivatedFeatures(2, 30), likelihood)
    assert torch.isfinite(model.elbo())


def test_one_row_is_enough() -> None:
    X, y = torch.ones(1, 2), torch.ones(1)
    assert torch.isfinite(actgp.GPR(X, y, actgp.ArcCosine(2)).predict(X).variance).all()
    assert torch.isfinite(actgp.SGPR(X, y, actgp.ArcCosine(2), actgp.ActivatedFeatures(2, 5)).elbo())


def test_state_dict_restores_predictions() -> None:
    X = inputs(30, torch.float32)
    model, other = svgp(GaussianLikelihood(), torch.float32), svgp(GaussianLikelihood(), torch.float32)
    actgp.fit(model, X, X[:, 0], actgp.Recipe(network_steps=5, num_steps=5))
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.predict(X).mean, model.predict(X).mean)


GOOD = torch.zeros(4, 2)


@pytest.mark.parametrize(
    ("X", "y", "error", "text"),
    [
        (torch.full((4, 2), torch.nan), torch.zeros(4), ValueError, "X must be finite, got 8 NaN"),
        (torch.zeros(4, 3), torch.zeros(4), ValueError, "X must have 2 columns, got 3"),
        (torch.zeros(4), torch.zeros(4), ValueError, r"X must have shape \[N, 2\], got \[4\]"),
        (torch.zeros(0, 2), torch.zeros(0), ValueError, "X must have at least one row"),
        (
            torch.zeros(4, 2, dtype=torch.int32),
            torch.zeros(4),
            TypeError,
            "X must be float32 or float64, got torch.int32",
        ),
        ([[0.0, 0.0]], torch.zeros(1), TypeError, "X must be a torch.Tensor, got list"),
        (
            GOOD,
            torch.zeros(3),
            ValueError,
            r"y must have shape \[4\] or \[4, .\], one row for each row of X, got \[3\]",
        ),
        (GOOD, torch.tensor([0.0, 0.0, 0.0, torch.inf]), ValueError, r"y must be finite, .* the first at \(3,\)"),
        (GOOD, [0.0] * 4, TypeError, "y must be a torch.Tensor, got list"),
    ],
)
def test_bad_data_is_refused_everywhere(X: torch.Tensor, y: torch.Tensor, error: type[Exception], text: str) -> None:
    kernel, features = actgp.ArcCosine(2), actgp.ActivatedFeatures(2, 5)
    model = actgp.SVGP(kernel, features, GaussianLikelihood())
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for call in (
        lambda: actgp.GPR(X, y, kernel),
        lambda: actgp.SGPR(X, y, kernel, features),
        lambda: model.elbo(X, y, 10),
        lambda: actgp.fit(model, X, y),
    ):
        with pytest.raises(error, match=text):
            call()
    if text.startswith("X"):
        with pytest.raises(error, match=text):
            model.predict(X)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert kernel.raw_lengthscale.dtype == torch.float32  # nothing was converted on the way


def test_bad_models_are_refused() -> None:
    kernel, features = actgp.ArcCosine(2), actgp.ActivatedFeatures(2, 5)
    with pytest.raises(TypeError, match="likelihood must be a gpytorch likelihood, got str; pass e.g. gpytorch"):
        actgp.SVGP(kernel, features, "gaussian")
    softmax = SoftmaxLikelihood(num_classes=3, mixing_weights=False)
    with pytest.raises(ValueError, match="must be the softmax likelihood's number of features 3, got 2; leave it out"):
        actgp.SVGP(kernel, features, softmax, num_outputs=2)
    with pytest.raises(
        TypeError, match="noise must be the same for all rows, .* got MultitaskGaussianLikelihood; use gpyt"
    ):
        actgp.SVGP(kernel, features, gpytorch.likelihoods.MultitaskGaussianLikelihood(num_tasks=2), 2)
    with pytest.raises(ValueError, match="noise must be one number, got 2; leave out batch_shape"):
        actgp.SVGP(kernel, features, GaussianLikelihood(batch_shape=torch.Size([2])), 2)
    points = actgp.InducingPoints(torch.zeros(3, 2))
    for build in (
        lambda: actgp.GPR(GOOD, torch.zeros(4), "arccosine"),
        lambda: actgp.SGPR(GOOD, torch.zeros(4), "arccosine", points),
        lambda: actgp.SVGP("arccosine", points, GaussianLikelihood()),
    ):
        with pytest.raises(TypeError, match="kernel must be a gpytorch kernel, got str"):
            build()
    with pytest.raises(TypeError, match="features must be inducing features, got NoneType"):
        actgp.SGPR(GOOD, torch.zeros(4), kernel, None)  # type: ignore[arg-type]
    for build in (
        lambda: actgp.SGPR(GOOD, torch.zeros(4), actgp.ArcCosine(3), points),
        lambda: actgp.SVGP(actgp.ArcCosine(3), points, GaussianLikelihood()),
    ):
        with pytest.raises(ValueError, match="same number of inputs, got 3 and 2; build both"):
            build()
    batch = actgp.ArcCosine(2, batch_shape=torch.Size([2]))
    for build in (
        lambda: actgp.GPR(GOOD, torch.zeros(4), batch),
        lambda: actgp.SGPR(GOOD, torch.zeros(4), batch, points),
    ):
        with pytest.raises(
            ValueError, match=r"the kernel must have no batch_shape, got \[2\]; build one model for each"
        ):
            build()
    for build in (
        lambda: actgp.GPR(GOOD, torch.zeros(4), kernel, BernoulliLikelihood()),
        lambda: actgp.SGPR(GOOD, torch.zeros(4), kernel, features, BernoulliLikelihood()),
    ):
        with pytest.raises(TypeError, match="must be a gpytorch GaussianLikelihood, got BernoulliLikelihood; use SVGP"):
            build()
    with pytest.raises(ValueError, match="num_data must be at least 4, got 2"):
        actgp.SVGP(kernel, features, GaussianLikelihood()).elbo(GOOD, torch.zeros(4), 2)


def test_a_softmax_needs_a_feature_for_each_output() -> None:
    layer = actgp.GPLayer(actgp.ArcCosine(2), actgp.ActivatedFeatures(2, 4), 2)
    likelihood = gpytorch.likelihoods.SoftmaxLikelihood(num_classes=3, num_features=3, mixing_weights=False)
    with pytest.raises(ValueError, match="must be the softmax likelihood's number of features 3, got 2"):
        actgp.DeepGP([layer], likelihood)


def test_an_exact_model_in_single_precision_comes_back_the_same(tmp_path: Path) -> None:
    X = torch.randn(20, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    model = actgp.GPR(X, X.sum(1), actgp.ArcCosine(2)).float()
    model.save(tmp_path / "model")
    test = X[:5].float() + 0.1
    assert torch.equal(actgp.load(tmp_path / "model").predict(test).mean, model.predict(test).mean)
