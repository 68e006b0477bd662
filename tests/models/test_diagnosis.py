import pytest
import torch
from gpytorch.likelihoods import GaussianLikelihood

import actgp


def model(kernel: actgp.ZonalKernel, activation: str | actgp.Activation, M: int = 60) -> actgp.SVGP:
    features = actgp.ActivatedFeatures(kernel.input_dim, M, activation, generator=torch.Generator().manual_seed(0))
    return actgp.SVGP(kernel, features, GaussianLikelihood())


def diagnosis(
    kernel: actgp.ZonalKernel, activation: str | actgp.Activation, M: int = 60
) -> actgp.models.LayerDiagnosis:
    X = torch.randn(200, kernel.input_dim, generator=torch.Generator().manual_seed(1))
    return actgp.diagnose(model(kernel, activation, M), X).layers[0]


def test_unexplained_variance_follows_sharpness_and_dimension() -> None:
    # DESIGN's table, M = 128: more with sharper activations and in higher dimension, less with the matched kernel.
    def unexplained(d: int, beta: float) -> float:
        return diagnosis(actgp.ArcCosine(d - 1), actgp.Softplus(beta), 128).unexplained

    assert unexplained(5, 1.0) == pytest.approx(0.003, abs=0.002)
    assert unexplained(9, 1.0) == pytest.approx(0.014, abs=0.005)
    assert unexplained(9, 3.0) == pytest.approx(0.070, abs=0.02)
    matched = actgp.MatchedKernel(8, actgp.Softplus(1.0))
    assert diagnosis(matched, matched.activation, 128).unexplained < unexplained(9, 1.0) / 2


def test_more_features_explain_more() -> None:
    fractions = [diagnosis(actgp.ArcCosine(3), "softplus", M).unexplained for M in (5, 20, 80)]
    assert fractions == sorted(fractions, reverse=True)


@pytest.mark.filterwarnings("ignore::actgp.SpectralMismatchWarning")
def test_mismatches_are_named_with_their_size() -> None:
    tanh = diagnosis(actgp.ArcCosine(4), "tanh")
    assert tanh.match.lost == pytest.approx(0.154, abs=0.01)
    assert tanh.match.missing == pytest.approx(0.5, abs=0.01)
    assert tanh.unexplained > 0.4
    assert tanh.truncation_error > 0.1  # what is left of it is linear
    assert len(tanh.advice) == 2
    relu = diagnosis(actgp.ArcCosine(4), "relu")
    assert relu.norm > 10
    assert any("norm has not converged" in advice for advice in relu.advice)
    matern = diagnosis(actgp.ZonalMatern(4), "softplus")
    assert matern.match.missing == pytest.approx(0.089, abs=0.01)
    assert matern.unexplained > matern.match.missing / 2


def test_a_good_match_has_no_advice_and_reads_well() -> None:
    found = diagnosis(actgp.ArcCosine(4), "softplus", 128)
    assert found.advice == ()
    assert found.truncation_error < 1e-6
    assert found.condition > 1e4
    text = str(actgp.diagnose(model(actgp.ArcCosine(4), "softplus"), torch.zeros(3, 4)))
    assert text.startswith("layer 1\nprior variance unexplained")


def test_too_few_features_are_advised_on() -> None:
    found = diagnosis(actgp.ArcCosine(10), actgp.Softplus(3.0), 10)
    assert any("use more inducing variables" in advice for advice in found.advice)


def test_inducing_points_have_no_spectrum_to_match() -> None:
    X = torch.randn(30, 2, generator=torch.Generator().manual_seed(0))
    sgpr = actgp.SGPR(X, X[:, 0], actgp.ArcCosine(2), actgp.InducingPoints(X))
    found = actgp.diagnose(sgpr, X).layers[0]
    assert found.unexplained < 1e-6
    assert found.match is None
    assert "activation" not in str(found)


def test_deep_models_are_diagnosed_layer_by_layer() -> None:
    g = torch.Generator().manual_seed(0)
    X = torch.randn(50, 3, generator=g)
    deep = actgp.deep_gp(3, num_layers=2, num_inducing=20, generator=g)
    with torch.no_grad():
        deep.layers[0].q.raw_mean.normal_(generator=g)
    found = actgp.diagnose(deep, X)
    assert len(found.layers) == 2
    assert str(found).count("prior variance unexplained") == 2
    first = deep.layers[0]
    svgp = actgp.SVGP(first.kernel, first.features, GaussianLikelihood())
    assert found.layers[0].unexplained == pytest.approx(actgp.diagnose(svgp, X).layers[0].unexplained)
    second = actgp.SVGP(deep.layers[1].kernel, deep.layers[1].features, GaussianLikelihood())
    reached = first(X).mean.detach()
    assert found.layers[1].unexplained == pytest.approx(actgp.diagnose(second, reached).layers[0].unexplained, abs=1e-5)


def test_models_without_features_are_refused() -> None:
    X = torch.zeros(3, 2)
    with pytest.raises(
        TypeError, match="model must have inducing features, got GPR; pass an SGPR, an SVGP or a DeepGP"
    ):
        actgp.diagnose(actgp.GPR(X, X[:, 0], actgp.ArcCosine(2)), X)  # type: ignore[arg-type]
