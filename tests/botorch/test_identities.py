"""What must hold between a deep GP's functions, its moments, and exact GPs."""

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Log, Normalize
from botorch.utils.datasets import SupervisedDataset
from gpytorch.kernels import MaternKernel, ScaleKernel
from gpytorch.mlls import ExactMarginalLogLikelihood
from small_problem import rows, values
from torch import Tensor
from torch.testing import assert_close

from actgp.botorch import DeepEvidence, DeepGPModel


@pytest.mark.parametrize("known_noise", [False, True])
def test_one_layer_is_the_exact_gp_of_botorch(X: Tensor, points: Tensor, known_noise: bool) -> None:
    Y = values(X)
    Yvar = torch.full_like(Y, 1e-3) if known_noise else None
    exact = SingleTaskGP(X, Y, Yvar)
    ours = DeepGPModel(X, Y, Yvar, num_layers=1)
    for i, outcome in enumerate(ours.outcomes):
        outcome.covar_module.lengthscale = exact.covar_module.lengthscale = 0.4
        outcome.mean_module.constant.data.fill_(0.2)
        exact.mean_module.raw_constant.data[i] = 0.2
    expected, found = exact.posterior(points), ours.moment_matched().posterior(points)
    assert_close(found.mean, expected.mean)
    assert_close(found.variance, expected.variance)
    assert_close(found.distribution.covariance_matrix, expected.distribution.covariance_matrix)
    evidence = ExactMarginalLogLikelihood(exact.likelihood, exact).train()
    assert_close(
        DeepEvidence(ours.likelihood, ours)(ours.train()(X), ours.train_targets),
        evidence(exact(*exact.train_inputs), exact.train_targets).sum(),
    )


def test_an_unbent_deep_gp_is_the_exact_gp(X: Tensor, points: Tensor) -> None:
    exact, deep = (
        DeepGPModel(X, values(X)[:, :1], num_layers=L, bend=1e-20, num_paths=2, num_functions=2) for L in (1, 3)
    )
    expected, found = (m.moment_matched().posterior(points).distribution for m in (exact, deep))
    assert_close(found.mean, expected.mean, rtol=0, atol=1e-7)
    assert_close(found.covariance_matrix, expected.covariance_matrix, rtol=0, atol=1e-7)


def test_moments_are_those_of_the_functions(model: DeepGPModel, points: Tensor) -> None:
    many = DeepGPModel(
        model.train_inputs[0], values(model.train_inputs[0])[:, :1], num_paths=4, num_functions=8_000
    ).warm_start(model)
    functions, moments = many.posterior(points), many.moment_matched().posterior(points)
    standard = moments.variance.sqrt()
    assert ((functions.mean - moments.mean).abs() < 0.06 * standard).all()
    centred = (functions.values - functions.mean.unsqueeze(-3)).squeeze(-1)  # [2, S, 3]
    joint = centred.mT @ centred / centred.shape[-2]
    scale = standard @ standard.mT
    # of the prior, functions have 1,024 random features, whose error weighs most where data leave little of it
    assert ((joint - moments.distribution.covariance_matrix).abs() < 0.2 * scale).all()


def test_functions_are_the_same_in_every_call_and_batch(two: DeepGPModel, points: Tensor) -> None:
    together = two.posterior(points).values  # [2, S, 3, 2]
    assert together.shape == (2, 32, 3, 2)
    assert_close(two.posterior(points[0]).values, together[0])
    assert_close(two.posterior(points[1, 1:2]).values, together[1, :, 1:2])
    assert_close(two.posterior(points.unsqueeze(1).expand(-1, 4, -1, -1)).values[:, 3], together)


def test_gradients(two: DeepGPModel, points: Tensor) -> None:
    inputs = points.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: two.posterior(x).values[:, :3], inputs)
    moments = two.moment_matched()
    assert torch.autograd.gradcheck(lambda x: moments.posterior(x).distribution.covariance_matrix, inputs)
    assert torch.autograd.gradcheck(lambda x: moments.posterior(x).mean, inputs)
    two.posterior(inputs).values.sum().backward()
    assert all(p.grad is None for p in two.parameters())  # parameters stay out of it


@pytest.mark.filterwarnings("ignore:A not p.d., added jitter")
def test_points_may_coincide(model: DeepGPModel, X: Tensor) -> None:
    same = model.moment_matched().posterior(X[:1].expand(3, 2))
    samples = same.rsample(torch.Size([4]))
    assert_close(samples[:, 0], samples[:, 2], rtol=0, atol=0.02)


def test_functions_pass_through_the_data(X: Tensor, points: Tensor) -> None:
    Y = values(X)[:, :1]
    exact = DeepGPModel(X, Y, torch.full_like(Y, 1e-5), num_paths=4, num_functions=8).fit()
    assert (exact.posterior(X).values - Y).abs().max() < 0.02
    assert exact.posterior(points).values.std(-3).max() > 1e-2


@pytest.mark.filterwarnings("ignore:Data .outcome observations. is not standardized")
@pytest.mark.parametrize("layers", [1, 2])
def test_conditioning_is_the_same_as_having_had_the_rows(X: Tensor, points: Tensor, layers: int) -> None:
    arguments = {"num_layers": layers, "outcome_transform": None, "num_paths": 4, "num_functions": 8}
    Y = values(X)
    before = DeepGPModel(X[:12], Y[:12], **arguments)
    refit = DeepGPModel(X, Y, **arguments).warm_start(before)
    after = before.condition_on_observations(X[12:], Y[12:])
    expected, found = (m.moment_matched().posterior(points) for m in (refit, after))
    assert_close(found.mean, expected.mean)
    assert_close(found.variance, expected.variance)
    at = before.moment_matched().condition_on_observations(X[12:], Y[12:]).posterior(points)
    assert_close(at.distribution.covariance_matrix, expected.distribution.covariance_matrix)
    assert after.is_conditioned
    assert (after.posterior(X[12:]).mean - Y[12:]).abs().mean() < (before.posterior(X[12:]).mean - Y[12:]).abs().mean()


def test_fantasies_are_batches_of_models(two: DeepGPModel, points: Tensor) -> None:
    Y = two.posterior(points).values.movedim(-3, 0)[:5]  # [5, 2, 3, 2]: of functions 0 to 4
    fantasies = two.condition_on_observations(points, Y)
    assert fantasies.batch_shape == (5, 2)
    inside = rows(4, 2, seed=3).expand(5, 2, 4, 2)
    at = fantasies.posterior(inside)
    assert at.values.shape == (5, 2, 32, 4, 2)
    single = two.condition_on_observations(points[1], Y[3, 1])
    assert_close(at.values[3, 1], single.posterior(inside[3, 1]).values)
    moments = two.moment_matched().condition_on_observations(points, Y).posterior(inside)
    assert_close(moments.mean[3, 1], single.moment_matched().posterior(inside[3, 1]).mean)


def test_subsets_of_outcomes(two: DeepGPModel, points: Tensor) -> None:
    together = two.posterior(points).values
    for subset in ([1], [1, 0]):
        model = two.subset_output(subset)
        assert model.num_outputs == len(subset)
        assert_close(model.posterior(points).values, together[..., subset])
        assert_close(two.posterior(points, output_indices=subset).values, together[..., subset])
        moments = two.moment_matched().posterior(points, output_indices=subset)
        assert_close(model.moment_matched().posterior(points).mean, moments.mean)
        assert_close(two.moment_matched().subset_output(subset).posterior(points).variance, moments.variance)


def test_noise_of_observations(two: DeepGPModel, points: Tensor) -> None:
    moments = two.moment_matched()
    added = moments.posterior(points, observation_noise=True).variance - moments.posterior(points).variance
    scale = two.outcome_transform.stdvs.square()[0]
    noises = torch.stack([o.likelihood.noise.squeeze() for o in two.outcomes])
    assert_close(added, (scale * noises).expand_as(added), rtol=1e-6, atol=1e-10)
    given = torch.tensor([[0.5, 2.0]], dtype=torch.float64)
    added = moments.posterior(points, observation_noise=given).variance - moments.posterior(points).variance
    assert_close(added, (scale * given).expand_as(added))
    noisy = [two.posterior(points, observation_noise=given) for _ in range(2)]
    assert_close(noisy[0].values, noisy[1].values)
    spread = (noisy[0].values - two.posterior(points).values).var((0, 1, 2))
    assert ((spread / (scale * given[0])).log().abs() < 0.4).all()


@pytest.mark.filterwarnings("ignore:Data .outcome observations. is not standardized")
def test_transforms(X: Tensor, points: Tensor) -> None:
    Y = values(X)[:, :1]
    plain = DeepGPModel(X, (Y - Y.mean()) / Y.std(), outcome_transform=None, num_functions=16).fit()
    scaled = DeepGPModel(2 * X - 7, Y, input_transform=Normalize(2, bounds=torch.tensor([[-7.0], [-5.0]]).expand(2, 2)))
    scaled.warm_start(plain)
    assert_close(scaled.train().train_inputs[0], 2 * X - 7)
    found = scaled.moment_matched().posterior(2 * points - 7)
    expected = plain.moment_matched().posterior(points)
    assert_close(found.mean, Y.mean() + Y.std() * expected.mean, rtol=1e-5, atol=1e-6)
    assert_close(found.variance, Y.var() * expected.variance, rtol=1e-4, atol=1e-7)
    assert_close(scaled.eval().train_inputs[0], X)

    positive = DeepGPModel(X, Y.exp(), outcome_transform=Log(), num_functions=16)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(positive.likelihood, positive))  # the model fits itself
    assert (positive.posterior(points).values > 0).all()


def test_other_kernels_and_botorchs_own_way_to_fit(X: Tensor, points: Tensor) -> None:
    kernel = ScaleKernel(MaternKernel(nu=2.5, ard_num_dims=2))
    model = DeepGPModel(X, values(X), covar_module=kernel, num_paths=2, num_functions=4)
    mll = DeepEvidence(model.likelihood, model)
    before = mll(model.train()(X), model.train_targets)
    assert fit_gpytorch_mll(mll) is mll
    assert not model.training
    assert mll(model.train()(X), model.train_targets) > before
    assert torch.isfinite(model.posterior(points).values).all()
    assert not torch.equal(model.outcomes[0].covar_module.outputscale, model.outcomes[1].covar_module.outputscale)


def test_a_warm_start_goes_on_from_where_it_was(model: DeepGPModel, X: Tensor) -> None:
    Y = values(X)[:, :1]
    warm = DeepGPModel(X, Y, num_paths=4, num_functions=32).warm_start(model)
    assert_close(warm.posterior(X).values, model.posterior(X).values)
    assert_close(warm.state_dict(), model.state_dict())
    cold = DeepGPModel(X, Y, num_paths=4, num_functions=32)
    cold.posterior(X)
    cold.load_state_dict(model.state_dict())
    assert_close(cold.posterior(X).values, model.posterior(X).values)  # what was known before is forgotten


def test_training_data_of_botorch(X: Tensor) -> None:
    Y = values(X)[:, :1]
    data = SupervisedDataset(X, Y, feature_names=["a", "b"], outcome_names=["y"], Yvar=torch.full_like(Y, 0.1))
    model = DeepGPModel(**DeepGPModel.construct_inputs(data), num_functions=16)
    assert model.outcomes[0].noise.shape == (18,)


def test_spread_vanishes_where_data_are_dense() -> None:
    X, T = rows(150, 4, seed=0), rows(150, 4, seed=1)

    def smooth(X: Tensor) -> Tensor:
        return (torch.sin(8 * X[:, 0]) * X[:, 1] + torch.cos(6 * X[:, 2] + 4 * X[:, 3])).unsqueeze(-1)

    exact = SingleTaskGP(X, smooth(X))
    fit_gpytorch_mll(ExactMarginalLogLikelihood(exact.likelihood, exact))
    deep = DeepGPModel(X, smooth(X), num_functions=16).fit().moment_matched()

    def spread(model: object, at: Tensor) -> Tensor:
        return model.posterior(at.unsqueeze(1)).variance.sqrt().mean()

    assert spread(deep, X) < 2 * spread(exact, X)
    assert spread(deep, T) > 3 * spread(deep, X)
