"""What a table is to predict: real numbers or labels, and what the members of a mixture make of either."""

from dataclasses import dataclass

import torch
from gpytorch.constraints import GreaterThan
from gpytorch.likelihoods import Likelihood, SoftmaxLikelihood
from jaxtyping import Float64
from torch import Tensor

from actgp.likelihoods import BernoulliLogitLikelihood, ContaminatedGaussianLikelihood, adapter_of
from actgp.tables.cross_fit import Task, classification, regression

SHARE = 0.02  # of outliers, in GPs of one layer
SMALLEST_NOISE = 1e-8


@dataclass(frozen=True)
class Targets:
    """Of N rows.

    Attributes:
        values: Real numbers [N, P]; labels as their likelihood has them, [N, 1] for two classes, or [N].
        num_classes: C; None for real numbers.
    """

    values: Tensor
    num_classes: int | None = None

    @staticmethod
    def of_labels(labels: Tensor) -> "Targets":
        """Labels 0 … C − 1."""
        C = int(labels.max()) + 1
        return Targets(labels.double().unsqueeze(1) if C == 2 else labels.long(), C)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Tensor) -> "Targets":
        return Targets(self.values[rows], self.num_classes)

    @property
    def num_outputs(self) -> int:
        """P: one for two classes, C for more."""
        if self.num_classes is None:
            return self.values.shape[1]
        return 1 if self.num_classes == 2 else self.num_classes

    def likelihood(self, input_dim: int) -> Likelihood:
        """Of a GP of one layer with so many inputs."""
        if self.num_classes is None:
            return ContaminatedGaussianLikelihood(
                noise_constraint=GreaterThan(SMALLEST_NOISE), share=SHARE, input_dim=input_dim
            )
        if self.num_classes == 2:
            return BernoulliLogitLikelihood()
        return SoftmaxLikelihood(num_classes=self.num_classes, mixing_weights=False)

    def task(self) -> Task:
        """What networks are trained to say."""
        if self.num_classes is None:
            return regression(self.values)
        return classification(self.values, self.likelihood(1), self.num_outputs)

    def residuals(self, mu: Float64[Tensor, "N P"] | None) -> Float64[Tensor, "N P"]:
        """What is left to say beside μ: y − μ; for labels, one for the label and zero for others, less p(μ).

        Without μ every class is as probable as it is often.
        """
        if self.num_classes is None:
            return self.values if mu is None else self.values - mu
        two = self.num_classes == 2
        hits = self.values if two else torch.nn.functional.one_hot(self.values, self.num_classes).double()
        if mu is None:
            return hits - hits.mean(0)
        return hits - (mu.sigmoid() if two else mu.softmax(1))

    def error(self, f: Float64[Tensor, "N P"]) -> float:
        """The mean squared error, or the cross-entropy, of f."""
        if self.num_classes is None:
            return (f - self.values).square().mean().item()
        return -adapter_of(self.likelihood(1)).conditional_log_prob(f, self.values).mean().item()
