"""The recorded ELBO is the model's, with the same gradients, in a loop of one's own."""

from collections.abc import Callable

import pytest
import torch
from gpytorch.likelihoods import SoftmaxLikelihood
from torch import Tensor, nn

import actgp
from actgp.training import own_loop

N = 100


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_loop, "RECORD_AFTER", 1)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def model_of(dtype: torch.dtype = torch.float64) -> actgp.DeepGP:
    g = generator(0)
    model = actgp.deep_gp(3, 1, 2, 8, num_points=4, generator=g).to(dtype)
    with torch.no_grad():
        for layer in model.gp_layers:
            layer.q.mean.normal_(generator=g).mul_(0.3)
    return model


def rows(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    X = torch.randn(40, 3, generator=generator(1), dtype=dtype)
    return X, torch.sin(2 * X[:, 0])


def descend(model: actgp.DeepGP, elbo: Callable[..., Tensor], X: Tensor, y: Tensor) -> list[float]:
    adam, g, values = torch.optim.Adam(model.parameters(), lr=0.01), generator(2), []
    for step in range(6):
        adam.zero_grad()
        batch = slice(8 * (step % 2), 8 * (step % 2) + 8)  # views at two places of one memory
        value = elbo(X[batch], y[batch], generator=g)
        (-value).backward()
        adam.step()
        values.append(value.item())
    return values


def test_training_is_the_same(dtype: torch.dtype, tolerance: dict[str, float]) -> None:
    recorded, plain = model_of(dtype), model_of(dtype)
    X, y = rows(dtype)
    elbo = actgp.RecordedELBO(recorded, N, 2)
    own = descend(recorded, elbo, X, y)
    theirs = descend(plain, lambda X, y, generator: plain.elbo(X, y, N, 2, generator=generator), X, y)
    torch.testing.assert_close(torch.tensor(own), torch.tensor(theirs))
    for ours, other in zip(recorded.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours, other, **tolerance)
    assert len(elbo.objective.functions) == 1


def test_it_is_a_tensor_like_others() -> None:
    model, (X, y) = model_of(), rows()
    elbo, m = actgp.RecordedELBO(model, N), model.gp_layers[0].q.mean
    elbo(X, y)
    (wanted,) = torch.autograd.grad(model.elbo(X, y, N, generator=generator(3)), m)
    (found,) = torch.autograd.grad(elbo(X, y, generator=generator(3)), m)
    torch.testing.assert_close(found, wanted)
    loss = -3 * elbo(X, y, generator=generator(3)) + m.square().sum()
    for times in (1, 2):  # backwards twice: gradients add up
        loss.backward(retain_graph=True)
        torch.testing.assert_close(m.grad, times * (2 * m.detach() - 3 * wanted))
    value = -elbo(X, y, generator=generator(3))
    model.zero_grad()
    for times in (1, 2):
        value.backward(retain_graph=True)
        torch.testing.assert_close(m.grad, -times * wanted)
    with pytest.raises(RuntimeError, match=r"differentiated once.*use model\.elbo"):
        torch.autograd.grad(elbo(X, y), m, create_graph=True)


def test_without_gradients_or_with_one_of_the_inputs_it_is_that_of_the_model() -> None:
    model, (X, y) = model_of(), rows()
    elbo = actgp.RecordedELBO(model, N)
    for _ in range(3):
        elbo(X, y)
    with torch.no_grad():
        assert torch.equal(elbo(X, y, generator=generator(3)), model.elbo(X, y, N, generator=generator(3)))
    X.requires_grad_()
    gradients = [
        torch.autograd.grad(value, X)[0]
        for value in (elbo(X, y, generator=generator(3)), model.elbo(X, y, N, generator=generator(3)))
    ]
    assert torch.equal(*gradients)
    assert gradients[0].any()
    X, y = X.detach(), y.requires_grad_()
    (found,) = torch.autograd.grad(elbo(X, y), y)
    assert found.any()
    model.requires_grad_(False)
    y = y.detach()
    assert torch.equal(elbo(X, y, generator=generator(3)), model.elbo(X, y, N, generator=generator(3)))


def test_targets_may_be_inputs() -> None:
    model = actgp.deep_gp(1, 1, 2, 8, generator=generator(0)).double()
    X = torch.randn(20, 1, generator=generator(1), dtype=torch.float64)
    elbo = actgp.RecordedELBO(model, N)
    for _ in range(3):
        torch.testing.assert_close(
            elbo(X, X, generator=generator(3)), model.elbo(X, X, N, generator=generator(3)), rtol=1e-12, atol=0
        )
    assert len(elbo.objective.functions) == 1


def softmax() -> actgp.DeepGP:
    return actgp.deep_gp(3, 2, 2, 8, likelihood=SoftmaxLikelihood(num_classes=2, mixing_weights=False))


def with_backbone() -> actgp.DeepGP:
    model = model_of()
    return actgp.DeepGP(model.gp_layers, model.likelihood, nn.Linear(3, 3).double())


@pytest.mark.parametrize("make", [softmax, with_backbone])
def test_models_that_cannot_be_recorded_are_refused(make: Callable[[], actgp.DeepGP]) -> None:
    with pytest.raises(ValueError, match=r"use model\.elbo"):
        actgp.RecordedELBO(make(), N)
    with pytest.raises(ValueError, match=r"use model\.elbo"):
        actgp.RecordedELBO(make(), N, compile=True)


def test_bad_input_is_refused_like_everywhere() -> None:
    model, (X, y) = model_of(), rows()
    with pytest.raises(TypeError, match="must be a DeepGP"):
        actgp.RecordedELBO(nn.Linear(3, 1), N)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="num_data"):
        actgp.RecordedELBO(model, 0)
    with pytest.raises(ValueError, match="num_samples"):
        actgp.RecordedELBO(model, N, 0)
    with pytest.raises(ValueError, match="num_data must be at least 40"):
        actgp.RecordedELBO(model, 39)(X, y)
    elbo = actgp.RecordedELBO(model, N)
    for _ in range(3):
        elbo(X, y)
    with pytest.raises(ValueError, match="X must"):
        elbo(X[:, :2], y)
    with pytest.raises(ValueError, match="y must"):
        elbo(X, y[:-1])
    with pytest.raises(ValueError, match="NaN|finite"):
        elbo(X.clone().fill_(torch.nan), y)


def test_steps_can_be_compiled() -> None:
    model, (X, y) = model_of(torch.float32), rows(torch.float32)
    elbo = actgp.RecordedELBO(model, N, compile=True)
    parameters = list(model.parameters())
    values = elbo(X, y, generator=generator(3)), model.elbo(X, y, N, generator=generator(3))
    assert len(elbo.objective.functions) == 1
    for ours, theirs in zip(*((value, *torch.autograd.grad(value, parameters)) for value in values), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3 * theirs.abs().max().item())
