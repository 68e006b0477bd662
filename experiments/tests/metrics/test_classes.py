"""Scores of probabilities, against small cases by hand, simulation, and what is known of them."""

import json
import math
from dataclasses import asdict

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss
from torch import Tensor

from actgp_experiments.metrics import class_scores, predictive_entropy, separation


def simulated(N: int, K: int = 10, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Calibrated predictions: each label is drawn from its row of probabilities."""
    g = torch.Generator().manual_seed(seed)
    p = torch.softmax(2 * torch.randn(N, K, generator=g, dtype=torch.float64), -1)
    return p, torch.multinomial(p, 1, generator=g).squeeze(-1)


def test_three_predictions_by_hand(dtype: torch.dtype, tolerance: dict[str, float]) -> None:
    p = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.25, 0.5, 0.25]], dtype=dtype)
    found = class_scores(p, torch.tensor([0, 1, 1]))
    expected = {
        "accuracy": 2 / 3,
        "log_likelihood": math.log(0.7 * 0.3 * 0.5) / 3,
        "ece": (0.3 + 0.6 + 0.5) / 3,
        "brier": (0.09 + 0.04 + 0.01 + 0.01 + 0.49 + 0.36 + 0.0625 + 0.25 + 0.0625) / 3,
        "aurc": (0 + 1 / 2 + 1 / 3) / 3,  # right at .7, wrong at .6, right at .5
    }
    assert found.metrics == pytest.approx(expected, rel=tolerance["rtol"])


def test_two_predictions_of_a_bin_are_averaged_before_they_are_compared() -> None:
    p = torch.tensor([[0.95, 0.05], [0.97, 0.03], [0.6, 0.4], [0.6, 0.4]], dtype=torch.float64)
    found = class_scores(p, torch.tensor([0, 1, 0, 0]))
    assert found.metrics["ece"] == pytest.approx((2 * abs(0.5 - 0.96) + 2 * abs(1 - 0.6)) / 4)
    assert found.reliability.counts == [0] * 8 + [2] + [0] * 5 + [2]  # 8/15 < 0.6 ≤ 9/15 and 14/15 < 0.95
    assert found.reliability.confidence[8::6] == pytest.approx([0.6, 0.96])
    assert found.reliability.accuracy[8::6] == pytest.approx([1.0, 0.5])
    assert sum(found.reliability.confidence) == pytest.approx(1.56)


def test_calibrated_predictions_have_no_calibration_error() -> None:
    errors = [class_scores(*simulated(N)).metrics["ece"] for N in (300, 6_000, 120_000)]
    assert errors[0] > 2 * errors[1] > 4 * errors[2]
    assert errors[2] < 0.01


def test_overconfident_predictions_have_one() -> None:
    p, y = simulated(20_000)
    sharper = p**3 / (p**3).sum(-1, keepdim=True)
    calibrated, overconfident = class_scores(p, y).metrics, class_scores(sharper, y).metrics
    assert overconfident["accuracy"] == calibrated["accuracy"]
    assert overconfident["ece"] > 0.1
    assert overconfident["brier"] > calibrated["brier"]
    assert overconfident["log_likelihood"] < calibrated["log_likelihood"]


def test_calibrated_predictions_score_as_they_expect() -> None:
    p, y = simulated(100_000)
    found = class_scores(p, y).metrics
    # E log p(y) = −H(p), E Brier = 1 − Σ p², E accuracy = max p
    assert found["log_likelihood"] == pytest.approx(-predictive_entropy(p).mean().item(), abs=0.01)
    assert found["brier"] == pytest.approx(1 - p.square().sum(-1).mean().item(), abs=0.01)
    assert found["accuracy"] == pytest.approx(p.amax(-1).mean().item(), abs=0.01)


@given(st.integers(1, 40), st.integers(2, 6), st.integers(0, 1000))
def test_bins_add_up(N: int, K: int, seed: int) -> None:
    p, y = simulated(N, K, seed)
    found = class_scores(p, y)
    counts, confidence, accuracy = (np.array(values) for values in asdict(found.reliability).values())
    assert counts.sum() == N
    assert (counts * accuracy).sum() / N == pytest.approx(found.metrics["accuracy"])
    assert (counts * confidence).sum() / N == pytest.approx(p.amax(-1).mean().item())
    edges = np.linspace(0, 1, 16)
    full = counts > 0
    assert ((edges[:-1] - 1e-12 <= confidence) & (confidence <= edges[1:] + 1e-12))[full].all()
    assert 0 <= found.metrics["ece"] <= 1


@given(st.integers(1, 40), st.integers(0, 1000))
def test_two_classes_have_twice_the_binary_brier_score(N: int, seed: int) -> None:
    p, y = simulated(N, 2, seed)
    assume(y.unique().numel() == 2)
    binary = brier_score_loss(y.numpy(), p[:, 1].numpy())
    assert class_scores(p, y).metrics["brier"] == pytest.approx(2 * binary)


def test_selective_risk_is_the_mean_over_all_thresholds() -> None:
    p, y = simulated(400)
    confidence, predicted = p.max(1)
    risks = [(predicted != y)[confidence >= threshold].double().mean().item() for threshold in confidence]
    assert class_scores(p, y).metrics["aurc"] == pytest.approx(sum(risks) / 400)


def test_certainty() -> None:
    y = torch.tensor([2, 0, 1])
    right = torch.nn.functional.one_hot(y, 4).double()
    found = class_scores(right, y)
    assert found.metrics == pytest.approx(
        {"accuracy": 1.0, "log_likelihood": 0.0, "ece": 0.0, "brier": 0.0, "aurc": 0.0}, abs=1e-12
    )
    assert found.reliability.counts == [0] * 14 + [3]
    wrong = class_scores(right, (y + 1) % 4).metrics
    assert wrong["log_likelihood"] == pytest.approx(math.log(2.0**-52))  # finite
    assert wrong == pytest.approx(
        {"accuracy": 0, "log_likelihood": wrong["log_likelihood"], "ece": 1, "brier": 2, "aurc": 1}
    )


def test_single_precision_scores_as_double() -> None:
    p, y = simulated(500)
    single, double = class_scores(p.float(), y), class_scores(p, y)
    assert single.metrics == pytest.approx(double.metrics, rel=1e-5)


def test_scores_can_be_stored() -> None:
    found = asdict(class_scores(*simulated(50)))
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_entropy(dtype: torch.dtype, tolerance: dict[str, float]) -> None:
    p = torch.tensor([[0.25] * 4, [1.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0], [0.7, 0.1, 0.1, 0.1]], dtype=dtype)
    expected = torch.distributions.Categorical(p).entropy()
    found = predictive_entropy(p)
    torch.testing.assert_close(found, expected, **tolerance)
    torch.testing.assert_close(found[:3], torch.tensor([4.0, 1.0, 2.0], dtype=dtype).log(), **tolerance)


def test_separation() -> None:
    a = torch.randn(200, generator=torch.Generator().manual_seed(0))
    assert separation(a, a + 100) == 1.0
    assert separation(a + 100, a) == 0.0
    assert separation(a, a) == pytest.approx(0.5)
    assert separation(torch.zeros(3), torch.zeros(5)) == 0.5
    assert separation(torch.tensor([1.0, 3.0]), torch.tensor([2.0, 3.0, 4.0])) == pytest.approx((5 - 0.5) / 6)


def test_separation_of_shifted_normals_is_known() -> None:
    g = torch.Generator().manual_seed(0)
    inside, outside = torch.randn(20_000, generator=g), 1.5 + torch.randn(30_000, generator=g)
    # P(B > A) = Φ(shift / √2)
    expected = torch.special.ndtr(torch.tensor(1.5 / math.sqrt(2))).item()
    assert separation(inside, outside) == pytest.approx(expected, abs=0.01)
    assert separation(inside.exp(), outside.exp()) == pytest.approx(separation(inside, outside))  # ranks alone matter


@pytest.mark.parametrize(
    ("p", "error", "match"),
    [
        ([[0.5, 0.5]], TypeError, "probabilities must be a torch.Tensor, got list"),
        (torch.ones(2, 2, dtype=torch.long), TypeError, "probabilities must be float32 or float64"),
        (torch.tensor([[math.nan, 0.5]]), ValueError, "probabilities must be finite, got 1 NaN"),
        (torch.full((3,), 0.5), ValueError, r"shape \[N, K\] .*, got \[3\]; for p = p\(y = 1\) alone pass torch.stack"),
        (torch.ones(3, 1), ValueError, r"two classes or more, got \[3, 1\]"),
        (torch.ones(0, 3), ValueError, r"a row or more .*, got \[0, 3\]"),
        (
            torch.tensor([[0.5, 0.5], [2.0, -1.0]]),
            ValueError,
            "got row 1 with smallest entry -1 and sum 1; pass logits",
        ),
        (torch.tensor([[0.5, 0.4]]), ValueError, "got row 0 with smallest entry 0.4 and sum 0.9; .* softmax first"),
    ],
)
def test_what_are_no_probabilities_is_refused(p: Tensor, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        class_scores(p, torch.zeros(len(p), dtype=torch.long))
    with pytest.raises(error, match=match):
        predictive_entropy(p)


@pytest.mark.parametrize(
    ("y", "error", "match"),
    [
        ([0, 1], TypeError, r"labels must be an int64 tensor, got list; convert them with torch.as_tensor"),
        (torch.zeros(2), TypeError, "got torch.float32"),
        (torch.tensor([0]), ValueError, r"labels must have shape \[2\], .*, got \[1\]; select the same rows"),
        (torch.tensor([0, 3]), ValueError, "labels must be 0 to 2, columns of probabilities, got 0 to 3; number the"),
        (torch.tensor([-1, 0]), ValueError, "got -1 to 0"),
    ],
)
def test_what_are_no_labels_is_refused(y: Tensor, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        class_scores(torch.full((2, 3), 1 / 3), y)


def test_what_is_no_uncertainty_is_refused() -> None:
    good = torch.zeros(3)
    with pytest.raises(ValueError, match=r"uncertainty_inside must have shape \[N\] .*, got \[3, 1\]; flatten it"):
        separation(good[:, None], good)
    with pytest.raises(ValueError, match=r"uncertainty_outside must have shape \[N\] .*, got \[0\]"):
        separation(good, good[:0])
    with pytest.raises(ValueError, match="uncertainty_outside must be finite"):
        separation(good, good / 0)
    with pytest.raises(TypeError, match="uncertainty_inside must be a torch.Tensor"):
        separation([1.0], good)
