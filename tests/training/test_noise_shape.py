"""Noise that varies, as far as rows that a network was not trained on bear it out."""

import pytest
import torch
from torch import Tensor

import actgp
from actgp.training.noise_shape import FOLDS, Errors, fit_noise, start_noise


def model() -> actgp.DeepGP:
    g = torch.Generator().manual_seed(0)
    layer = actgp.GPLayer(actgp.ArcCosine(1), actgp.InducingPoints(torch.randn(5, 1, generator=g)), 1, "carried")
    return actgp.DeepGP([layer], actgp.ContaminatedGaussianLikelihood(input_dim=2)).double()


def errors(N: int, slope: float, seed: int, size: float = 1.0) -> Errors:
    """Residuals whose variance is size² exp(slope h₀)."""
    g = torch.Generator().manual_seed(seed)
    h = torch.randn(N, 2, generator=g, dtype=torch.float64)
    sd = size * (slope * h[:, :1] / 2).exp()
    return Errors(h, sd * torch.randn(N, 1, generator=g, dtype=torch.float64))


def fitted(judged: Errors, others: Errors | None) -> Tensor:
    own = model()
    start_noise(own, 1.0)
    fit_noise(own, judged, others)
    slopes: Tensor = own.likelihood.slopes.detach()
    return slopes


def test_what_only_training_rows_say_is_not_believed() -> None:
    training, held_out = errors(600, 1.5, 0, size=0.2), errors(150, 0.0, 1)
    assert fitted(training, None)[0].item() > 0.9
    assert fitted(held_out, training).tolist() == [0, 0]


def test_what_both_kinds_of_rows_say_is_believed() -> None:
    training, held_out = errors(600, 1.5, 0, size=0.2), errors(150, 1.5, 1)
    assert fitted(held_out, training)[0].item() == pytest.approx(1.5, rel=0.25)


def test_slopes_are_kept_as_they_are_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    training, held_out = errors(600, 1.5, 0, size=0.2), errors(150, 1.5, 1)
    kept = fitted(held_out, training)
    monkeypatch.setattr("actgp.training.noise_shape._are_borne_out", lambda *_: True)
    assert torch.equal(fitted(held_out, training), kept)


def test_fewer_rows_than_folds_keep_their_slopes() -> None:
    training, held_out = errors(600, 1.5, 0), errors(FOLDS - 1, 0.0, 1)
    assert fitted(held_out, training)[0].item() > 1
