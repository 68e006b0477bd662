"""Predictions in which no row depends on the others.

`DeepGP.predict` draws paths anew for every row. Tables want the same answer for a row wherever it stands: here each
path has one noise ε_s for all rows,

    h_s(x) = mean(x) + sd(x) ε_s,     s = 1, …, S,

which leaves the distribution of a path at each single row as it is. The ε_s are quasi-random: S of them cover the
normal distribution more evenly than independent draws.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from actgp.models import DeepGP, Prediction

CHUNK = 2**22  # numbers in the largest tensor
NODES = 4_096
ROWS_OF_FUNCTIONS = 2_048
SEED = 0


@torch.no_grad()
def predict_rows(model: DeepGP, X: Float[Tensor, "N D"], num_samples: int) -> Prediction:
    """The predictive distribution at each row: a mixture over S paths.

    Args:
        model: A model without a backbone.
        X: Inputs, in the model's precision.
        num_samples: S; a model of one layer needs, and takes, only one.
    """
    layers = model.gp_layers
    S = num_samples if len(layers) > 1 else 1
    constants = [layer.constants() for layer in layers]
    widths = [layer.num_outputs for layer in layers[:-1]]
    noises = _normal_points(S, sum(widths)).to(X).split(widths, dim=1)  # [S, H] for each hidden layer
    widest = max(layer.features.num_inducing * layer.num_outputs for layer in layers)
    means, variances = [], []
    for part in model.enter(X).split(max(1, CHUNK // (S * widest))):
        mean, variance = (
            values.expand(S, *values.shape) for values in layers[0].marginals(part, constants[0])
        )  # [S, n, H]
        for layer, constant, noise in zip(layers[1:], constants[1:], noises, strict=True):
            h = mean + variance.sqrt() * noise.unsqueeze(1)
            mean, variance = (
                values.unflatten(0, (S, len(part))) for values in layer.marginals(h.flatten(0, 1), constant)
            )
        means.append(mean)
        variances.append(variance)
    return Prediction(torch.cat(means, dim=1), torch.cat(variances, dim=1), model.likelihood)


def class_probabilities(prediction: Prediction) -> Float[Tensor, "N C"]:
    """E[softmax(f)] under the mixture.

    The components share about `NODES` quasi-random points among them, where `Prediction.probabilities` takes 512 for
    each: with many components that costs far more than it adds.
    """
    S, _, C = prediction.component_means.shape
    K = -(-NODES // S)
    # Runs of a Sobol sequence cover the cube each; every S-th point of it would not.
    noise = _normal_points(S * K, C).to(prediction.component_means).reshape(S, K, 1, C).transpose(0, 1)
    rows = max(1, CHUNK // (K * S * C))
    parts = (values.split(rows, dim=1) for values in (prediction.component_means, prediction.component_variances))
    return torch.cat([(m + v.sqrt() * noise).softmax(-1).mean((0, 1)) for m, v in zip(*parts, strict=True)])


@torch.no_grad()
def function_values(
    model: DeepGP, X: Float[Tensor, "N D"], num_functions: int, generator: torch.Generator
) -> Float[Tensor, "N P K"]:
    """The values at all rows of K functions from the posterior."""
    functions = model.sample_functions(num_functions, generator=generator)
    parts = X.split(ROWS_OF_FUNCTIONS)
    drawn = [torch.cat([f(part).reshape(len(part), -1) for part in parts]) for f in functions]  # K times [N, P]
    return torch.stack(drawn, dim=-1)


def _normal_points(num_points: int, dimension: int) -> Float[Tensor, "S H"]:
    """Scrambled Sobol points, taken to the normal distribution."""
    if dimension == 0:
        return torch.zeros(num_points, 0, dtype=torch.float64)
    points = torch.quasirandom.SobolEngine(dimension, scramble=True, seed=SEED).draw(num_points, dtype=torch.float64)
    smallest = torch.finfo(torch.float64).eps
    return torch.special.ndtri(points.clamp(smallest, 1 - smallest))
