"""A loop of one's own: a model is a module that is called, its start is public, and a run says how it fares."""

import gpytorch
import pytest
import torch
from torch import Tensor, distributed, nn

import actgp


@pytest.fixture
def data(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    X = torch.randn(300, 2, generator=generator)
    y = torch.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * torch.randn(300, generator=generator)
    return X, (y - y.mean()) / y.std()


@pytest.fixture
def model() -> actgp.DeepGP:
    return actgp.deep_gp(2, num_layers=2, num_inducing=16)


def test_called_as_a_module_a_model_is_its_network(model: actgp.DeepGP, data: tuple[Tensor, Tensor]) -> None:
    X, _ = data
    actgp.start_network(model, X)
    seen: list[Tensor] = []
    model.register_forward_hook(lambda _, inputs, output: seen.append(output))
    torch.testing.assert_close(model(X), model.mean(X), rtol=0, atol=0)
    assert len(seen) == 1


def test_ddp_goes_around_a_model(model: actgp.DeepGP, data: tuple[Tensor, Tensor], tmp_path: object) -> None:
    X, y = data
    actgp.start_network(model, X)
    expected = torch.autograd.grad(nn.functional.mse_loss(model(X), y), model.gp_layers[0].q.raw_mean)[0]
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    try:
        wrapped = nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)
        nn.functional.mse_loss(wrapped(X), y).backward()
    finally:
        distributed.destroy_process_group()
    torch.testing.assert_close(model.gp_layers[0].q.raw_mean.grad, expected)


def test_the_start_is_that_of_fit(data: tuple[Tensor, Tensor]) -> None:
    """Drawn weights are learnt from; after them the ELBO starts where a network of unit S is far below."""
    X, y = data
    model = actgp.deep_gp(
        2, num_layers=2, num_inducing=16, likelihood=gpytorch.likelihoods.GaussianLikelihood()
    ).double()
    X, y = X.double(), y.double()
    fresh = nn.functional.mse_loss(model(X), y)
    actgp.start_network(model, X, generator=torch.Generator().manual_seed(0))
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(100):
        adam.zero_grad()
        error = nn.functional.mse_loss(model(X), y)
        error.backward()
        adam.step()
    assert error < 0.2 * fresh
    before, mean = model.elbo(X, y, num_data=300, num_samples=8), model(X)
    actgp.start_posterior(model, X, y, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(model(X), mean, rtol=0, atol=1e-6)  # the network stays
    assert model.training
    assert model.elbo(X, y, num_data=300, num_samples=8) > before + 100


def test_weights_are_kept_and_starts_are_drawn_from_the_generator(
    model: actgp.DeepGP, data: tuple[Tensor, Tensor]
) -> None:
    X, _ = data
    twin = actgp.deep_gp(2, num_layers=2, num_inducing=16)
    twin.load_state_dict(model.state_dict())
    for each in (model, twin):
        actgp.start_network(each, X, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(model.hidden_means(X)[1], twin.hidden_means(X)[1], rtol=0, atol=0)
    drawn = model.hidden_means(X)[1]
    assert drawn.std() > 0
    actgp.start_network(model, X)
    torch.testing.assert_close(model.hidden_means(X)[1], drawn, rtol=0, atol=0)


def test_what_is_no_deep_gp_is_refused(data: tuple[Tensor, Tensor]) -> None:
    with pytest.raises(TypeError, match="model must be a DeepGP or an SVGP, got Linear; build one by"):
        actgp.start_network(nn.Linear(2, 1), data[0])


def test_steps_and_results_carry_the_score_of_held_out_rows(
    model: actgp.DeepGP, data: tuple[Tensor, Tensor], generator: torch.Generator
) -> None:
    steps: list[actgp.Step] = []
    recipe = actgp.Recipe(network_steps=50, num_steps=50, calibrate=False, use_all_rows=False)
    result = actgp.fit(
        model,
        data[0],
        data[1],
        recipe,
        held_out=(data[0][:60], data[1][:60]),
        callback=steps.append,
        generator=generator,
    )
    posterior = [step.held_out for step in steps if step.stage == "posterior"]
    assert len(set(posterior)) == 2  # found before the first step and at step 25
    assert result.held_out is not None
    assert result.held_out >= max(posterior)  # the best, seen at the last step or before
    best = model.predict(data[0][1:60:2]).log_prob(data[1][1:60:2]).mean().item()  # every other row is of stage 2
    assert abs(best - result.held_out) < 0.2
    assert actgp.fit(model, data[0][:100], data[1][:100], recipe).held_out is None  # too few to hold any out
