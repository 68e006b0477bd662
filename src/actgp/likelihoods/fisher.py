"""The Fisher information of f: how sharply one observation of y determines it.

    I(f) = E_y[s sᵀ] = Σ_k r_k r_kᵀ,   s = ∂ log p(y | f) / ∂f

In place of −∂² log p/∂f² it never is negative, and it is the same for Gaussian noise and for canonical links.
"""

import torch
from gpytorch.likelihoods import BernoulliLikelihood, GaussianLikelihood, Likelihood, SoftmaxLikelihood
from jaxtyping import Float
from torch import Tensor

from actgp.autocast import full_precision
from actgp.likelihoods.contaminated import noise_mixture
from actgp.likelihoods.expectation import conditional, conditional_log_prob
from actgp.sampling import seeded

NUM_SAMPLES = 16
SEED = 0
NODES, FARTHEST = 2_001, 10.0  # of an integral over noise: how many, up to how many standard deviations


@full_precision
def fisher_factors(likelihood: Likelihood, f: Float[Tensor, "N P"]) -> Float[Tensor, "K N P"]:
    """r_1, …, r_K at each f_i.

    Exact for Gaussian noise (r_p = e_p / σ; less with outliers, by quadrature), the probit (r_p = φ/√(Φ(1−Φ)) e_p) and
    softmax (one factor for each class: its score times the root of its probability); from draws of y, always the same,
    for other likelihoods.
    """
    f = f.detach()
    N, P = f.shape
    if isinstance(likelihood, GaussianLikelihood):
        return _one_for_each_output(f.new_tensor(_information(likelihood)).sqrt().expand(N, P))
    if isinstance(likelihood, BernoulliLikelihood):
        # log φ − ½ (log Φ(f) + log Φ(−f)), where Φ itself would underflow
        log_density = -0.5 * f.square() - 0.5 * torch.log(torch.tensor(2 * torch.pi)).to(f)
        log_weights = log_density - 0.5 * (torch.special.log_ndtr(f) + torch.special.log_ndtr(-f))
        return _one_for_each_output(log_weights.exp())
    if isinstance(likelihood, SoftmaxLikelihood):
        labels = torch.arange(likelihood.num_classes, device=f.device)
        scores = [_score(likelihood, f, label.expand(N)) for label in labels]
        probabilities: Tensor = conditional(likelihood, f).probs  # type: ignore[attr-defined]  # [N, C]
        return torch.stack(scores) * probabilities.detach().T.sqrt().unsqueeze(-1)
    with seeded(SEED, f.device):  # torch's distributions draw from the global generator
        draws = [conditional(likelihood, f).sample() for _ in range(NUM_SAMPLES)]
    return torch.stack([_score(likelihood, f, y) for y in draws]) / NUM_SAMPLES**0.5


def _information(likelihood: GaussianLikelihood) -> float:
    """∫ (p′)² / p dy for noise of density p: 1/σ² without outliers; with them, by the trapezoidal rule."""
    log_weights, variances = (values.detach().double().cpu() for values in noise_mixture(likelihood))
    if len(variances) == 1:
        return 1 / variances.item()
    x = torch.linspace(-1.0, 1.0, NODES, dtype=torch.float64).unsqueeze(-1) * torch.asinh(
        FARTHEST * (variances[-1] / variances[0]).sqrt()
    )
    y, dy = variances[0].sqrt() * x.sinh(), x.cosh()  # [Q, 1]: nodes lie closest where noise is narrow
    parts = torch.exp(log_weights - 0.5 * (variances.log() + y.square() / variances)) * dy  # [Q, 2], but for a factor
    density, slope = parts.sum(-1), (y / variances * parts).sum(-1)
    return (slope.square() / density).sum().div(density.sum()).item()


def _score(likelihood: Likelihood, f: Float[Tensor, "N P"], y: Tensor) -> Float[Tensor, "N P"]:
    with torch.enable_grad():
        f = f.requires_grad_()
        (score,) = torch.autograd.grad(conditional_log_prob(likelihood, f, y).sum(), f)
    return score


def _one_for_each_output(weights: Float[Tensor, "N P"]) -> Float[Tensor, "P N P"]:
    return torch.diag_embed(weights).movedim(1, 0)
