"""Scores of predictive distributions, against simulation and what is known of the normal distribution."""

import math

import numpy as np
import pytest
import torch
from torch.distributions import Normal

from actgp_experiments.baselines.predictor import mixture
from actgp_experiments.metrics import continuous_ranked_probability_score, pit, scores


def mixture_of_three(N: int = 6) -> tuple[torch.distributions.Distribution, torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    means = torch.randn(3, N, generator=g, dtype=torch.float64)
    variances = torch.rand(3, N, generator=g, dtype=torch.float64) + 0.1
    return mixture(means, variances), torch.randn(N, generator=g, dtype=torch.float64)


def test_crps_of_a_normal_has_its_known_form() -> None:
    # CRPS(N(0, 1), 0) = (√2 − 1) / √π (Gneiting et al., 2005)
    standard = Normal(torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64))
    value = continuous_ranked_probability_score(standard, torch.zeros(1, dtype=torch.float64)).item()
    assert value == pytest.approx((math.sqrt(2) - 1) / math.sqrt(math.pi))


def test_crps_of_a_mixture_is_the_integral_over_thresholds() -> None:
    predictive, y = mixture_of_three()
    # CRPS = ∫ (F(z) − 1[y ≤ z])² dz
    z = torch.linspace(-12, 12, 200_001, dtype=torch.float64)
    for i in range(len(y)):
        means = predictive.component_distribution.mean[i]
        sds = predictive.component_distribution.stddev[i]
        F = torch.special.ndtr((z[:, None] - means) / sds).mean(-1)
        integral = np.trapezoid(((F - (y[i] <= z).double()) ** 2).numpy(), z.numpy())
        assert continuous_ranked_probability_score(predictive, y)[i].item() == pytest.approx(integral, rel=1e-4)


def test_calibrated_predictions_have_their_nominal_coverage_and_a_flat_pit() -> None:
    g = torch.Generator().manual_seed(1)
    mean = torch.randn(20_000, generator=g, dtype=torch.float64)
    predictive = Normal(mean, 0.5)
    y = mean + 0.5 * torch.randn(20_000, generator=g, dtype=torch.float64)
    found = scores(predictive, y, scale=3.0)
    for level in (50, 90, 95):
        assert found.metrics[f"coverage_{level}"] == pytest.approx(level / 100, abs=0.01)
    assert sum(found.pit) == 20_000
    assert max(found.pit) < 1.15 * 1_000 < 1.35 * min(found.pit)
    assert found.metrics["rmse"] == pytest.approx(0.5, rel=0.02)
    assert found.metrics["nlpd"] == pytest.approx(0.5 * math.log(2 * math.pi * math.e * 0.25), abs=0.02)


def test_original_units_scale_errors_and_shift_densities() -> None:
    predictive, y = mixture_of_three()
    small, large = (scores(predictive, y, scale).metrics for scale in (1.0, 5.0))
    assert large["rmse_original"] == pytest.approx(5 * small["rmse"])
    assert large["crps_original"] == pytest.approx(5 * small["crps"])
    assert large["nlpd_original"] == pytest.approx(small["nlpd"] + math.log(5.0))
    assert large["nlpd"] == small["nlpd"]


def test_the_transform_is_the_distribution_function() -> None:
    predictive, y = mixture_of_three()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        draws = predictive.sample(torch.Size([40_000]))
    assert torch.allclose(pit(predictive, y), (draws <= y).double().mean(0), atol=0.02)


def test_no_outlier_is_lost_to_round_off() -> None:
    means = torch.zeros(13, 8)
    assert sum(scores(mixture(means, means + 1.0), torch.full((8,), 50.0), 1.0).pit) == 8
