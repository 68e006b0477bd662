"""What a student says of N rows, by name.

A regression is a mixture of K normals for each output, whose weights depend on the row, too:

    p(y) = Σ_k w_k N(y; μ_k, v_k),     Σ_k w_k μ_k = mean,     Σ_k w_k (v_k + μ_k²) − mean² = epistemic² + aleatoric²
"""

from collections.abc import Sequence
from math import log, pi
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from actgp import checks
from actgp.distil.long_tail import lengthened, log_slope, moments, shortened

HALVINGS = 30  # of the interval that holds a quantile: to the last digit of float32


class Normals(NamedTuple):
    """A predictive distribution of real targets. [N] for one output, [N, P] for several.

    Attributes:
        mean: E[y].
        epistemic_std: Of not knowing f.
        aleatoric_std: Of the noise.
        weights: Of each normal.
        means: Of each.
        variances: Of each.
    """

    mean: Float[Tensor, "*rows"]
    epistemic_std: Float[Tensor, "*rows"]
    aleatoric_std: Float[Tensor, "*rows"]
    weights: Float[Tensor, "K N *P"]
    means: Float[Tensor, "K N *P"]
    variances: Float[Tensor, "K N *P"]

    @property
    def std(self) -> Float[Tensor, "*rows"]:
        """Of y."""
        return (self.epistemic_std.square() + self.aleatoric_std.square()).sqrt()

    def log_prob(self, y: Tensor) -> Float[Tensor, "*rows"]:
        """log p(y), of each output by itself."""
        if y.shape[-self.mean.ndim :] != self.mean.shape:
            raise ValueError(
                f"y must have the shape of the means, {list(self.mean.shape)}, got {list(y.shape)}; reshape it"
            )
        return mixture_log_prob(y, self.weights, self.means, self.variances)

    def cdf(self, y: Tensor) -> Float[Tensor, "*rows"]:
        """P(Y ≤ y), of each output by itself."""
        return (self.weights * normal_cdf((y - self.means) / self.variances.sqrt())).sum(0)

    def interval(self, level: float = 0.95) -> tuple[Tensor, Tensor]:
        """The central interval that holds y with probability `level`: its lower and upper ends."""
        if not 0.0 < checks.real(level, "level", example=0.95) < 1.0:
            raise ValueError(f"level must lie between 0 and 1, got {level}; pass e.g. 0.95")
        lower, upper = self.quantiles(((1 - level) / 2, (1 + level) / 2))
        return lower, upper

    def quantiles(self, levels: tuple[float, ...]) -> tuple[Float[Tensor, "*rows"], ...]:
        """By bisection between the quantiles of the normals, in units of std and in single precision, as in ONNX."""
        scale = self.std
        scaled = ((self.means - self.mean) / scale, self.variances.sqrt() / scale, self.weights)
        mean, sd, weights = (values.float() for values in scaled)
        ends = [mean + sd * torch.special.ndtri(torch.tensor(p, dtype=torch.float64)).item() for p in levels]
        low, high = (torch.stack([end(each, 0) for each in ends]) for end in (torch.amin, torch.amax))  # [Q, N, *P]
        wanted = torch.tensor(levels, dtype=torch.float32, device=mean.device).reshape(-1, *[1] * self.mean.ndim)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            below = (weights * normal_cdf((middle.unsqueeze(1) - mean) / sd)).sum(1) < wanted
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        found = self.mean + scale * ((low + high) / 2).to(self.mean.dtype)
        return tuple(found[i] for i in range(len(levels)))


class LongTailed(NamedTuple):
    """A predictive distribution of targets whose T(y) is a mixture of normals (`long_tail`); shapes as in `Normals`.

    Attributes:
        mean: E[y].
        epistemic_std: The part of the standard deviation of y that not knowing f has in that of T(y).
        aleatoric_std: The rest, as a standard deviation.
        weights: Of each normal of T(y).
        means: Of each.
        variances: Of each.
        tail: What T is.
    """

    mean: Float[Tensor, "*rows"]
    epistemic_std: Float[Tensor, "*rows"]
    aleatoric_std: Float[Tensor, "*rows"]
    weights: Float[Tensor, "K N *P"]
    means: Float[Tensor, "K N *P"]
    variances: Float[Tensor, "K N *P"]
    tail: Float[Tensor, "*four_P"]

    @classmethod
    def of(cls, shorter: Normals, tail: Float[Tensor, "*four_P"]) -> "LongTailed":
        """The distribution of y, by that of T(y)."""
        _, epistemic, aleatoric, weights, means, variances = shorter
        mean, std = moments(weights, means, variances, tail)
        ratio = std / shorter.std
        return cls(mean, ratio * epistemic, ratio * aleatoric, weights, means, variances, tail)

    @property
    def std(self) -> Float[Tensor, "*rows"]:
        """Of y."""
        return (self.epistemic_std.square() + self.aleatoric_std.square()).sqrt()

    def log_prob(self, y: Tensor) -> Float[Tensor, "*rows"]:
        """log p(y) = log p(T(y)) + log T′(y), of each output by itself."""
        return self._shorter.log_prob(shortened(y, self.tail)) + log_slope(y, self.tail)

    def cdf(self, y: Tensor) -> Float[Tensor, "*rows"]:
        """P(Y ≤ y), of each output by itself."""
        return self._shorter.cdf(shortened(y, self.tail))

    def interval(self, level: float = 0.95) -> tuple[Tensor, Tensor]:
        """The central interval that holds y with probability `level`: its lower and upper ends."""
        lower, upper = self._shorter.interval(level)
        return lengthened(lower, self.tail), lengthened(upper, self.tail)

    def quantiles(self, levels: tuple[float, ...]) -> tuple[Float[Tensor, "*rows"], ...]:
        """Those of T(y), where they lead."""
        return tuple(lengthened(each, self.tail) for each in self._shorter.quantiles(levels))

    @property
    def _shorter(self) -> Normals:
        """The distribution of T(y)."""
        weights, means, variances = self.weights, self.means, self.variances
        mean = (weights * means).sum(0)
        std = (weights * (variances + (means - mean).square())).sum(0).sqrt()
        return Normals(mean, torch.zeros_like(std), std, weights, means, variances)


class Classes(NamedTuple):
    """A predictive distribution of labels.

    Attributes:
        probabilities: Of each class.
        epistemic_std: Of the probability of each class, of not knowing f.
    """

    probabilities: Float[Tensor, "N C"]
    epistemic_std: Float[Tensor, "N C"]

    def log_prob(self, y: Tensor) -> Float[Tensor, " N"]:
        """The logarithm of the probability of labels 0 … C − 1."""
        if y.shape != self.probabilities.shape[:1]:
            raise ValueError(
                f"y must hold {len(self.probabilities)} labels, got shape {list(y.shape)}; pass one for each row"
            )
        smallest = torch.finfo(self.probabilities.dtype).tiny
        return self.probabilities.clamp_min(smallest).log().gather(1, y.long()[:, None])[:, 0]


Outputs = Normals | LongTailed | Classes


def joined(parts: Sequence[Outputs]) -> Outputs:
    """Rows after rows."""
    if isinstance(parts[0], Classes):
        return Classes(*map(torch.cat, zip(*parts, strict=True)))
    values = [each[:6] for each in parts]
    rows = (0, 0, 0, 1, 1, 1)
    found = [torch.cat(each, dim) for each, dim in zip(zip(*values, strict=True), rows, strict=True)]
    if isinstance(parts[0], LongTailed):
        found.append(parts[0].tail)
    return type(parts[0])(*found)


def in_precision(outputs: Outputs, dtype: torch.dtype) -> Outputs:
    """The same in another precision."""
    return type(outputs)(*(values.to(dtype) for values in outputs))


def normal_cdf(z: Tensor) -> Tensor:
    """Φ(z)."""
    return 0.5 * (1.0 + torch.erf(z * 0.5**0.5))


def mixture_log_prob(y: Tensor, weights: Tensor, means: Tensor, variances: Tensor) -> Tensor:
    """log Σ_k w_k N(y; μ_k, v_k), over the first dimension of the mixture, broadcast."""
    quadratic = (y - means).square() / variances + variances.log() + log(2 * pi)
    return (weights.log() - 0.5 * quadratic).logsumexp(0)
