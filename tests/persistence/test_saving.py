"""Models are the same to the last bit after a turn through a file."""

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from gpytorch import kernels as gpk
from gpytorch import likelihoods as gpl
from gpytorch.constraints import GreaterThan, Interval, LessThan, Positive
from gpytorch.priors import GammaPrior

import actgp
from actgp.layers import WhitenedGaussian
from actgp.persistence import archive, describe, rebuild, savable, savable_as
from actgp.persistence.classes import savable_for


def randomise(model: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=g, dtype=parameter.dtype))
    return model


def inputs(N: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(N, 2, dtype=dtype, generator=torch.Generator().manual_seed(1))


def turned(model: torch.nn.Module, path: Path) -> torch.nn.Module:
    model.save(path)
    return actgp.load(path)


def assert_same_state(one: torch.nn.Module, other: torch.nn.Module) -> None:
    assert type(one) is type(other)
    assert str(one) == str(other)
    a, b = one.state_dict(), other.state_dict()
    assert list(a) == list(b)
    for name, tensor in a.items():
        assert tensor.dtype == b[name].dtype, name
        assert torch.equal(tensor, b[name]), name
    flags = [{n: p.requires_grad for n, p in m.named_parameters()} for m in (one, other)]
    assert flags[0] == flags[1]


def assert_same(one: torch.nn.Module, other: torch.nn.Module, dtype: torch.dtype) -> None:
    assert_same_state(one, other)
    assert not other.training
    X = inputs(7, dtype)
    one = copy.deepcopy(one).eval()
    a, b = one.predict(X), other.predict(X)
    for name in ("mean", "variance", "epistemic"):
        assert torch.equal(getattr(a, name), getattr(b, name)), name
    P = a.component_means.shape[-1]
    y = (X[:, :1] > 0).long().expand(-1, P)
    y = y[:, 0] if isinstance(one.likelihood, gpl.SoftmaxLikelihood) else y * 0.5 + 0.25
    y = y.round() if isinstance(one.likelihood, INTEGERS) else y
    assert torch.equal(a.log_prob(y), b.log_prob(y))
    if isinstance(one, actgp.DeepGP):
        assert torch.equal(one.mean(X), other.mean(X))
    if not isinstance(one, actgp.GPR | actgp.SGPR):
        bounds = [m.elbo(X, y, 20, generator=torch.Generator().manual_seed(0)) for m in (one, other)]
        assert torch.equal(bounds[0], bounds[1])
    if isinstance(one, actgp.DeepGP) and all(has_functions(layer.kernel) for layer in one.layers):
        f, g = (
            m.sample_functions(1, num_features=9, generator=torch.Generator().manual_seed(0))[0] for m in (one, other)
        )
        assert torch.equal(f(X), g(X))


def has_functions(kernel: gpk.Kernel) -> bool:
    return isinstance(kernel, actgp.ZonalKernel) and kernel.active_dims is None


INTEGERS = (
    gpl.BernoulliLikelihood,
    actgp.BernoulliLogitLikelihood,
    gpl.PoissonLikelihood,
    gpl.NegativeBinomialLikelihood,
)


def shallow(kernel: gpk.Kernel, likelihood: gpl.Likelihood | None = None, P: int = 1) -> actgp.DeepGP:
    layer = actgp.GPLayer(kernel, actgp.InducingPoints(inputs(4, torch.float32)), P)
    return actgp.DeepGP([layer], likelihood or gpl.GaussianLikelihood())


ZONAL: dict[str, Callable[[], gpk.Kernel]] = {
    "order 0": lambda: actgp.ArcCosine(2, order=0),
    "order 2": lambda: actgp.ArcCosine(2, order=2),
    "matern": lambda: actgp.ZonalMatern(2, nu=1.5),
    "rbf": lambda: actgp.ZonalRBF(2),
    "matched": lambda: actgp.MatchedKernel(2, actgp.Softplus(0.7), num_levels=9),
    "spectral": lambda: actgp.SpectralKernel(2, [0.1, 0.7, 0.3, 0.0, 0.2]),
    "active": lambda: actgp.ArcCosine(1, active_dims=[1]),
}
PLAIN: dict[str, Callable[[], gpk.Kernel]] = {
    "rbf": gpk.RBFKernel,
    "rbf ard": lambda: gpk.RBFKernel(ard_num_dims=2),
    "matern": lambda: gpk.MaternKernel(nu=0.5, active_dims=(1,)),
    "rq": lambda: gpk.RQKernel(ard_num_dims=2),
    "linear": lambda: gpk.LinearKernel(ard_num_dims=2),
    "periodic": lambda: gpk.PeriodicKernel(ard_num_dims=2),
    "sum": lambda: gpk.ScaleKernel(gpk.RBFKernel(active_dims=[0])) + gpk.PeriodicKernel() + gpk.ConstantKernel(),
    "product": lambda: gpk.ScaleKernel(gpk.RQKernel() * gpk.CosineKernel(active_dims=[0])) + actgp.ArcCosine(2),
    "bounded": lambda: gpk.RBFKernel(lengthscale_constraint=Interval(0.1, 5.0)),
    "bounded below": lambda: gpk.RBFKernel(
        ard_num_dims=2, lengthscale_constraint=GreaterThan(torch.tensor([0.1, 0.2]), torch.exp, torch.log)
    ),
    "bounded above": lambda: gpk.RBFKernel(lengthscale_constraint=LessThan(3.0)),
    "free": lambda: gpk.ScaleKernel(gpk.RBFKernel(), outputscale_constraint=Positive(transform=None)),
}
LIKELIHOODS: dict[str, Callable[[], gpl.Likelihood]] = {
    "gaussian": gpl.GaussianLikelihood,
    "bounded": lambda: gpl.GaussianLikelihood(noise_constraint=Interval(1e-3, 2.0)),
    "outliers": lambda: actgp.ContaminatedGaussianLikelihood(share=0.02),
    "student": gpl.StudentTLikelihood,
    "laplace": gpl.LaplaceLikelihood,
    "beta": gpl.BetaLikelihood,
    "bernoulli": gpl.BernoulliLikelihood,
    "bernoulli by the logit": actgp.BernoulliLogitLikelihood,
    "poisson": gpl.PoissonLikelihood,
    "negative binomial": lambda: gpl.NegativeBinomialLikelihood(num_failures_param=True),
    "softmax": lambda: gpl.SoftmaxLikelihood(num_classes=3, mixing_weights=False),
    "mixing softmax": lambda: gpl.SoftmaxLikelihood(num_features=3, num_classes=4),
}


@pytest.mark.parametrize("kernel", ZONAL.values(), ids=ZONAL)
def test_zonal_kernels(kernel: Callable[[], gpk.Kernel], dtype: torch.dtype, tmp_path: Path) -> None:
    model = randomise(shallow(kernel()).to(dtype))
    assert_same(model, turned(model, tmp_path / "model"), dtype)


@pytest.mark.parametrize("kernel", PLAIN.values(), ids=PLAIN)
def test_gpytorchs_kernels(kernel: Callable[[], gpk.Kernel], dtype: torch.dtype, tmp_path: Path) -> None:
    model = randomise(shallow(kernel()).to(dtype))
    assert_same(model, turned(model, tmp_path / "model"), dtype)
    copied = copy.deepcopy(model)
    assert_same(model, turned(copied, tmp_path / "model"), dtype)


@pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS)
def test_likelihoods(likelihood: Callable[[], gpl.Likelihood], dtype: torch.dtype, tmp_path: Path) -> None:
    chosen = likelihood()
    model = randomise(shallow(actgp.ArcCosine(2), chosen, getattr(chosen, "num_features", 1)).to(dtype))
    assert_same(model, turned(model, tmp_path / "model"), dtype)


@pytest.mark.parametrize(
    "activation", [actgp.ReLU(), actgp.Softplus(0.1), actgp.Swish(), actgp.GELU(3.3), actgp.Tanh()]
)
def test_activations_in_deep_models(activation: actgp.Activation, dtype: torch.dtype, tmp_path: Path) -> None:
    layers = [
        actgp.GPLayer(
            actgp.MatchedKernel(2, activation),
            actgp.ActivatedFeatures(2, 5, activation),
            P,
            "identity" if P == 2 else "zero",
        )
        for P in (2, 1)
    ]
    model = randomise(actgp.DeepGP(layers, gpl.GaussianLikelihood()).to(dtype))
    assert_same(model, turned(model, tmp_path / "model"), dtype)


def test_a_model_that_warned_once_does_not_warn_again(tmp_path: Path) -> None:
    with pytest.warns(actgp.SpectralMismatchWarning):
        model = actgp.deep_gp(2, num_layers=1, num_inducing=4, layers=actgp.Layers(activation="relu"))
    assert_same(model, turned(model, tmp_path / "model"), torch.float32)


def test_a_sharpness_that_kernel_and_features_share_stays_shared(tmp_path: Path) -> None:
    sharpness = actgp.Softplus(1.3, learnable=True)
    layer = actgp.GPLayer(actgp.MatchedKernel(2, sharpness, 6), actgp.ActivatedFeatures(2, 5, sharpness, 6))
    model = randomise(actgp.DeepGP([layer], gpl.GaussianLikelihood()).double())
    back = turned(model, tmp_path / "model")
    assert_same(model, back, torch.float64)
    assert len(list(back.parameters())) == len(list(model.parameters()))
    assert back.layers[0].kernel.activation.raw_beta is back.layers[0].features.activation.raw_beta


def test_a_kernel_used_twice_stays_one(tmp_path: Path) -> None:
    kernel = gpk.RBFKernel()
    model = randomise(shallow(kernel * kernel).double())
    back = turned(model, tmp_path / "model")
    assert_same(model, back, torch.float64)
    assert len(list(back.parameters())) == len(list(model.parameters()))


def test_a_polynomial_kernel_in_the_precision_that_gpytorch_has_it_in(tmp_path: Path) -> None:
    model = randomise(shallow(gpk.PolynomialKernel(3) + gpk.RBFKernel()).double())
    assert_same(model, turned(model, tmp_path / "model"), torch.float64)


def test_frozen_parameters_stay_frozen_and_mode_is_evaluation(dtype: torch.dtype, tmp_path: Path) -> None:
    model = randomise(actgp.deep_gp(2, num_layers=2, num_inducing=4).to(dtype)).train()
    model.layers[0].requires_grad_(False)
    model.likelihood.noise_covar.raw_noise.requires_grad_(False)
    back = turned(model, tmp_path / "model")
    assert_same(model, back, dtype)
    assert model.training
    back.elbo(inputs(5, dtype), torch.zeros(5), 5).backward()
    assert back.layers[0].q.raw_mean.grad is None
    assert back.layers[1].q.raw_mean.grad is not None


def test_mixed_precision_comes_back_as_it_was(tmp_path: Path) -> None:
    model = actgp.deep_gp(
        2, num_layers=1, num_inducing=4, layers=actgp.Layers(num_points=0, activation=actgp.Softplus(0.1))
    )
    assert model.layers[0].features.activation.fixed_beta.dtype == torch.float64
    assert_same(model, turned(model, tmp_path / "model"), torch.float32)
    rounded = copy.deepcopy(model).float()
    assert_same(rounded, turned(rounded, tmp_path / "model"), torch.float32)


def test_other_models(dtype: torch.dtype, tmp_path: Path) -> None:
    X = inputs(9, dtype)
    for y in (X[:, 0].sin(), X.cos()):
        features = actgp.ActivatedFeatures(2, 5, generator=torch.Generator().manual_seed(0))
        for model in (
            actgp.GPR(X, y, actgp.ArcCosine(2)),
            actgp.GPR(X, y, gpk.ScaleKernel(gpk.RBFKernel())),
            actgp.SGPR(X, y, actgp.ArcCosine(2), features),
            actgp.SVGP(actgp.ArcCosine(2), copy.deepcopy(features), gpl.BernoulliLikelihood(), 1).to(dtype),
            actgp.SVGP(actgp.ArcCosine(2), copy.deepcopy(features), gpl.SoftmaxLikelihood(3, 4)).to(dtype),
        ):
            randomise(model)
            back = turned(model, tmp_path / "model")
            assert_same(model, back, dtype)
            if isinstance(model, actgp.GPR):
                assert torch.equal(model.log_evidence(), back.log_evidence())
            if isinstance(model, actgp.SGPR):
                assert torch.equal(model.elbo(), back.elbo())


def test_loading_does_not_touch_the_global_generator(tmp_path: Path) -> None:
    model = shallow(actgp.ArcCosine(2), gpl.SoftmaxLikelihood(3, 4), 3)
    model.save(tmp_path / "model")
    before = torch.get_rng_state()
    actgp.load(tmp_path / "model")
    assert torch.equal(torch.get_rng_state(), before)


def test_loaded_models_can_be_trained_and_saved_again(tmp_path: Path) -> None:
    model = turned(actgp.deep_gp(2, num_layers=2, num_inducing=4), tmp_path / "model")
    with torch.no_grad():
        model.layers[0].q.raw_mean.add_(1.0)
    assert_same(model, turned(model, tmp_path / "model"), torch.float32)


def test_descriptions_can_be_part_of_other_files(tmp_path: Path) -> None:
    model = randomise(actgp.deep_gp(2, num_layers=2, num_inducing=4))
    document, tensors = describe(model)
    archive.write(tmp_path / "file", "estimator", {"model": document, "scale": 2.0}, tensors)
    contents = archive.read(tmp_path / "file", "estimator")
    assert_same(model, rebuild(contents.document["model"], contents.tensors), torch.float32)
    with pytest.raises(ValueError, match="must have class one of .*'FittedRegressor'.*, got None"):
        actgp.load(tmp_path / "file")


def backbone() -> torch.nn.Sequential:
    return torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2))


def test_a_backbone_is_given_its_tensors(dtype: torch.dtype, tmp_path: Path) -> None:
    layer = actgp.GPLayer(actgp.ArcCosine(2), actgp.ActivatedFeatures(2, 4))
    model = actgp.DeepGP([layer], gpl.GaussianLikelihood(), backbone()).to(dtype)
    model.mean(inputs(7, dtype))  # running statistics
    model.backbone[0].weight.requires_grad_(False)
    model.save(tmp_path / "model")
    own = backbone()
    weight = own[2].weight
    back = actgp.load(tmp_path / "model", backbone=own)
    assert back.backbone is own
    assert own[2].weight is weight  # an optimiser that holds it goes on holding it
    assert_same(model, back, dtype)


def test_wrong_backbones_are_refused_and_left_alone(tmp_path: Path) -> None:
    layer = actgp.GPLayer(actgp.ArcCosine(2), actgp.ActivatedFeatures(2, 4))
    actgp.DeepGP([layer], gpl.GaussianLikelihood(), backbone()).save(tmp_path / "with")
    actgp.DeepGP([layer], gpl.GaussianLikelihood()).save(tmp_path / "without")
    with pytest.raises(ValueError, match="with a module of the same structure, got None; files hold its tensors but"):
        actgp.load(tmp_path / "with")
    with pytest.raises(ValueError, match="without a backbone must be loaded without one, got Sequential; leave backbo"):
        actgp.load(tmp_path / "without", backbone=backbone())
    for wrong, message in (
        (torch.nn.Linear(2, 2), "with a tensor backbone.0.bias, got none; build it as"),
        (torch.nn.Sequential(*backbone(), torch.nn.Linear(2, 2)), "with no tensor backbone.3.bias, got one; build it"),
        (
            torch.nn.Sequential(*backbone()[:2], torch.nn.Linear(3, 4)),
            r"backbone.2.bias of shape \[2\], got \[4\]; build it",
        ),
    ):
        before = copy.deepcopy(wrong.state_dict())
        with pytest.raises(ValueError, match=f"the backbone must have the structure of the one that .*{message}"):
            actgp.load(tmp_path / "with", backbone=wrong)
        assert all(torch.equal(before[name], tensor) for name, tensor in wrong.state_dict().items())
        assert wrong.training


class Doubled(actgp.ArcCosine):
    pass


class Deeper(actgp.DeepGP):
    pass


class Noise(gpl.GaussianLikelihood):
    pass


class Stateful(torch.nn.Identity):
    def get_extra_state(self) -> str:
        return "text"


def points() -> actgp.InducingPoints:
    return actgp.InducingPoints(inputs(3, torch.float32))


def tight() -> gpk.Kernel:
    return gpk.RBFKernel(lengthscale_constraint=Positive(torch.square, torch.sqrt))


def subclassed_constraint() -> gpk.Kernel:
    class Tight(Positive):
        pass

    return gpk.RBFKernel(lengthscale_constraint=Tight())


REFUSED: dict[str, tuple[Callable[[], torch.nn.Module], str]] = {
    "activation": (
        lambda: actgp.deep_gp(
            1, 1, 1, 3, layers=actgp.Layers(activation=actgp.CustomActivation(lambda t: t.exp()), num_levels=3)
        ),
        "layers.0.features.activated.activation must be one of .*'Softplus'.*, got CustomActivation, whose code",
    ),
    "kernel": (
        lambda: shallow(actgp.CustomKernel(2, lambda t: torch.exp(t - 1))),
        "layers.0.kernel must be one of .*'ArcCosine'.*, got CustomKernel, whose code .*; keep model.state",
    ),
    "derived kernel": (lambda: shallow(Doubled(2)), "layers.0.kernel must be one of .*, got Doubled, whose"),
    "inner kernel": (
        lambda: shallow(gpk.RBFKernel() + gpk.ScaleKernel(gpk.RFFKernel(4, num_dims=2))),
        "layers.0.kernel.kernels.1.base_kernel must be one of .*, got RFFKernel, whose",
    ),
    "batch": (
        lambda: shallow(actgp.ArcCosine(2)),
        r"a kernel must have no batch_shape, got \[2\] at layers.0.kernel; build one model",
    ),
    "likelihood": (
        lambda: shallow(actgp.ArcCosine(2), Noise()),
        "likelihood must be one of .*, got Noise, whose",
    ),
    "batch of noise": (
        lambda: shallow(actgp.ArcCosine(2), gpl.LaplaceLikelihood(batch_shape=torch.Size([1]))),
        r"one number for each parameter, got shapes \{'raw_noise': \[1, 1\]\} at likelihood; leave out batch_shape",
    ),
    "prior": (
        lambda: shallow(gpk.RBFKernel(lengthscale_prior=GammaPrior(1.0, 1.0))),
        "must have no priors on its parameters, got GammaPrior at layers.0.kernel.lengthscale_prior; keep",
    ),
    "transform": (
        lambda: shallow(tight()),
        "transform of .*'exp'.* and its inverse, got others at layers.0.kernel.raw_l",
    ),
    "constraint": (
        lambda: shallow(subclassed_constraint()),
        "layers.0.kernel.raw_lengthscale_constraint must be one of .*, got Tight, whose",
    ),
    "model": (
        lambda: Deeper([actgp.GPLayer(actgp.ArcCosine(2), points())], gpl.GaussianLikelihood()),
        "the model must be one of .*'DeepGP'.*, got Deeper, whose code no file holds; keep model.state_dict",
    ),
    "extra state": (
        lambda: actgp.DeepGP([actgp.GPLayer(actgp.ArcCosine(2), points())], gpl.GaussianLikelihood(), Stateful()),
        "a model's state must be tensors, got str as backbone._extra_state; keep",
    ),
}


@pytest.mark.parametrize(("build", "message"), REFUSED.values(), ids=REFUSED)
def test_what_a_file_cannot_hold_is_refused_by_name(
    build: Callable[[], torch.nn.Module], message: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    model = build()
    if request.node.callspec.id == "batch":  # models refuse it at the start, but a kernel can be exchanged
        model.layers[0].kernel = actgp.ArcCosine(2, batch_shape=torch.Size([2]))
    (tmp_path / "model").write_text("as it was")
    with pytest.raises((TypeError, ValueError), match=f"to be saved, {message}|to be saved, .*{message}"):
        model.save(tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert (tmp_path / "model").read_text() == "as it was"


def test_features_and_layers_of_unknown_classes_are_refused(tmp_path: Path) -> None:
    class Points(actgp.InducingPoints):
        pass

    class Layer(actgp.GPLayer):
        pass

    plain = actgp.GPLayer(actgp.ArcCosine(2), Points(inputs(3, torch.float32)))
    with pytest.raises(TypeError, match="layers.0.features must be one of .*'InducingPoints'.*, got Points, whose"):
        actgp.DeepGP([plain], gpl.GaussianLikelihood()).save(tmp_path / "model")
    layer = Layer(actgp.ArcCosine(2), points())
    with pytest.raises(TypeError, match=r"layers.0 must be one of \['GPLayer'\], got Layer, whose"):
        actgp.DeepGP([layer], gpl.GaussianLikelihood()).save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_what_a_constructor_did_not_make_is_refused(tmp_path: Path) -> None:
    class Wider(WhitenedGaussian):
        pass

    model = shallow(actgp.ArcCosine(2))
    model.layers[0].q = Wider(4, 1)
    with pytest.raises(TypeError, match=r"q of a layer must be one of \['WhitenedGaussian'\], got Wider, whose code"):
        model.save(tmp_path / "model")
    model.layers[0].q = WhitenedGaussian(4, 1)
    with pytest.raises(TypeError, match="to be saved, layers.0.kernel.power must be of type int, got 2.5; keep model"):
        shallow(gpk.PolynomialKernel(2.5)).save(tmp_path / "model")
    for _ in range(9):
        model.layers[0].kernel = gpk.AdditiveKernel(model.layers[0].kernel)
    with pytest.raises(ValueError, match="parts must be at most 18 deep, got layers.0.kernel.*; nest them less"):
        model.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_names_of_savable_classes_are_their_own() -> None:
    class ArcCosine(actgp.ArcCosine):
        pass

    with pytest.raises(ValueError, match="the name of a savable class must be its own, got ArcCosine twice; rename"):
        savable(ArcCosine)
    assert savable_as(actgp.ArcCosine(2)) is not None
    assert savable_as(ArcCosine(2)) is None


def test_energies_that_are_normalised_stay_as_they_are() -> None:
    kernel = actgp.SpectralKernel(2, [0.1, 0.7, 0.3, 0.0, 0.2])
    for _ in range(3):
        again = actgp.SpectralKernel(2, kernel.energies(3, 5))
        assert torch.equal(again.energies(3, 5), kernel.energies(3, 5))


def test_more_levels_than_a_file_may_ask_for_are_refused(tmp_path: Path) -> None:
    features = actgp.ActivatedFeatures(2, 3, actgp.ReLU(), num_levels=20)
    layer = actgp.GPLayer(actgp.MatchedKernel(2, "relu"), features)
    for part, name in ((layer.features, "features"), (layer.kernel, "kernel")):
        part.num_levels = 1_001
        with pytest.raises(ValueError, match=f"num_levels must be at most 1000, got 1001 at layers.0.{name}; lower it"):
            actgp.DeepGP([layer], gpl.GaussianLikelihood()).save(tmp_path / "model")
        part.num_levels = 20
    assert not list(tmp_path.iterdir())


def test_everything_of_ours_that_is_not_code_can_be_saved() -> None:
    ours = [value for value in vars(actgp).values() if isinstance(value, type)]
    abstract = (actgp.Activation, actgp.ZonalKernel, actgp.InducingFeatures)
    code = (actgp.CustomActivation, actgp.CustomKernel)
    for base in abstract:
        found = {saved.cls for saved in savable_for(base).values()}
        assert {c for c in ours if issubclass(c, base)} - {*abstract, *code} == found
