"""A trained network made a deep GP with the same mean.

An MLP with L activations becomes L GP layers. Layer ℓ takes over the units of activation ℓ: their weights give the
directions of the inducing features, and what follows them, up to the next activation, its output weights. See
`codes` for what passes between layers, `refit` for one layer, and `sweeps` for all of them together.
"""

import torch
from gpytorch.likelihoods import GaussianLikelihood, Likelihood
from jaxtyping import Float64
from torch import Tensor, nn

from actgp import checks
from actgp.autocast import full_precision
from actgp.layers import GPLayer, mean_function
from actgp.likelihoods import adapter_of, supported
from actgp.linalg import posterior_scale
from actgp.models import DeepGP
from actgp.models.build import KernelName
from actgp.weights.build import Settings, build_layers
from actgp.weights.head import Head
from actgp.weights.refit import relative_error
from actgp.weights.report import WeightsReport
from actgp.weights.rows import SYNTHETIC, split_rows
from actgp.weights.split import Split, split
from actgp.weights.sweeps import Composition, sweep

DEFAULT_ENERGY = 0.99999
DEFAULT_RANK = 32
MINIMUM_ROWS = 10
CHUNK = 1_024  # rows that go through the backbone at a time
SMALLEST = 1e-12
SEED = 0
TOLERANCE = 0.1
LEAST_NOISE = 1e-2  # under q(u), relative to the spread of a layer's outputs


@full_precision
@torch.no_grad()
def convert_weights(
    network: nn.Module,
    X: Tensor | None = None,
    *,
    likelihood: Likelihood | None = None,
    kernel: KernelName = "matched",
    rank: int | None = None,
    energy: float | None = None,
    num_inducing: int | None = None,
    num_levels: int | None = None,
    tolerance: float = TOLERANCE,
    generator: torch.Generator | None = None,
) -> tuple[DeepGP, WeightsReport]:
    """Makes a deep GP whose mean is a trained network.

    The Linear layers and activations (ReLU, Softplus, SiLU, GELU, Tanh) at the network's end become GP layers;
    what comes before them is copied and stays in front as the backbone. The network is read in evaluation mode and not
    changed.

    Args:
        network: The network; an nn.Sequential, or a module that `torch.fx` can trace.
        X: Inputs such as the network was trained on, in its precision: the output weights are refitted to the network's
            values there, and a fifth of the rows is kept to measure the result. Without them, standard normal inputs
            of the head stand in.
        likelihood: A gpytorch likelihood of as many latent functions as the network has outputs; Gaussian by default.
        kernel: "matched" to the activation, or "arccosine" as in the paper.
        rank: How many numbers pass from each GP layer to the next.
        energy: Or: the part of each linear map between activations to keep. By default 0.99999, with at most 32
            numbers.
        num_inducing: M of each layer; by default twice its units, between 128 and 512. Where it is less than the
            number of units, those of most influence are taken.
        num_levels: Ñ, the levels of the activation that are kept; by default 20, and 40 for ReLU.
        tolerance: How far the mean may be from the network's outputs on rows that were kept to measure it, relative to
            their spread; a conversion that is further off is refused. float("inf") accepts any.
        generator: Draws the rows to hold out and the neighbours of the rest, on the CPU.

    Returns:
        The deep GP, in the network's precision, and a report. The variance v of each layer makes the mean square of its
        whitened weights one. Its q(u) is as sure as if the network's values at X had been observed with the
        error of the refit as noise, no labels involved.

    Example:
        >>> import actgp, torch
        >>> net = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.Softplus(), torch.nn.Linear(16, 1))
        >>> deep, report = actgp.convert_weights(net, torch.randn(200, 3))
    """
    tolerance = checks.real(tolerance, "tolerance", example=TOLERANCE)
    if not tolerance > 0:
        raise ValueError(f"tolerance must be positive, got {tolerance}; pass e.g. {TOLERANCE}, or inf to accept any")
    parts = split(network)
    head = parts.head
    likelihood = _likelihood(likelihood, head.num_outputs)
    settings = Settings(
        checks.choice(kernel, "kernel", ("matched", "arccosine")),
        *_codes_to_keep(head, rank, energy),
        None if num_inducing is None else checks.integer(num_inducing, "num_inducing", minimum=1),
        None if num_levels is None else checks.integer(num_levels, "num_levels", minimum=2),
    )
    generator = torch.Generator().manual_seed(SEED) if generator is None else generator
    rows = split_rows(_entries(parts, X, generator), generator)

    wanted = head(rows.test)
    checks.measurable(wanted.to(parts.dtype), "the network's output")

    layers, records = build_layers(head, rows, settings)

    compose = Composition(layers)
    refitted = relative_error(compose(rows.test, compose.means()) - wanted, wanted)
    sweeps = sweep(layers, head, rows.draw, rows.judge, generator)
    error = relative_error(compose(rows.test, compose.means()) - wanted, wanted)
    _choose_variances(layers, rows.fit, max(error, LEAST_NOISE))
    model = DeepGP(layers, likelihood, parts.backbone).to(parts.dtype)
    h = rows.test.to(parts.dtype)
    for layer in model.gp_layers:  # in the model's own precision, round-off included
        h = mean_function(layer)(h)
    error = relative_error(h.double() - wanted, wanted)
    backbone = "" if parts.backbone is None else f"{_names(parts.backbone)}, because {parts.reason}"
    report = WeightsReport(tuple(records), backbone, parts.ignored, X is None, len(rows.test), refitted, sweeps, error)
    if not error <= tolerance:
        raise ValueError(
            f"a conversion must have the network's outputs to within {100 * tolerance:.3g}% of their spread, got a "
            f"mean that is {error:.1%} off on {len(rows.test)} rows not used for fitting; pass more rows of X, such as "
            f'the network was trained on, or tolerance=float("inf") to have the model all the same:\n{report}'
        )
    return model, report


def _likelihood(likelihood: Likelihood | None, num_outputs: int) -> Likelihood:
    likelihood = GaussianLikelihood() if likelihood is None else supported(likelihood)
    latent = adapter_of(likelihood).num_latent
    if latent not in (None, num_outputs):
        raise ValueError(
            f"the softmax likelihood must have as many features as the network has outputs, got "
            f"{latent} and {num_outputs}; pass SoftmaxLikelihood(num_classes={num_outputs}, "
            f"num_features={num_outputs}, mixing_weights=False)"
        )
    return likelihood


def _codes_to_keep(head: Head, rank: int | None, energy: float | None) -> tuple[float, int]:
    """The energy to keep, and the most numbers that may pass between layers."""
    if rank is not None and energy is not None:
        raise ValueError(f"one of rank and energy must be given, got {rank} and {energy}; leave one out")
    narrowest = min(min(dense.W.shape) for dense in head.dense[1:-1]) if len(head.dense) > 2 else 1
    if rank is not None:
        rank = checks.integer(rank, "rank", minimum=1)
        if len(head.dense) > 2 and rank > narrowest:
            raise ValueError(
                f"rank must be at most {narrowest}, the narrowest hidden layer, got {rank}; lower it, or pass energy"
            )
        return float("inf"), rank
    if energy is None:
        return DEFAULT_ENERGY, DEFAULT_RANK
    energy = checks.positive(energy, "energy")
    if energy > 1:
        raise ValueError(f"energy must be at most 1, got {energy}; pass e.g. {DEFAULT_ENERGY}")
    return energy, max(max(dense.W.shape) for dense in head.dense)


def _entries(parts: Split, X: Tensor | None, generator: torch.Generator) -> Float64[Tensor, "N D"]:
    """What enters the head: X, or what the backbone makes of it; standard normal where there is no X."""
    D = parts.head.input_dim
    W = parts.head.dense[0].W
    if X is None:
        return torch.randn(SYNTHETIC, D, dtype=torch.float64, generator=generator).to(W.device)
    if parts.backbone is None:
        checks.measurable(checks.inputs(X, D), "X")
    checks.finite(checks.tensor(X, "X"), "X")
    if X.dtype != parts.dtype:
        expected, got = (str(dtype).removeprefix("torch.") for dtype in (parts.dtype, X.dtype))
        raise TypeError(f"X must have the network's precision, {expected}, got {got}; convert it")
    if X.ndim < 2 or len(X) < MINIMUM_ROWS:
        raise ValueError(
            f"X must have shape [N, …] with at least {MINIMUM_ROWS} rows, got {list(X.shape)}; pass more data, or none"
        )
    if parts.backbone is None:
        return X.double()
    chunks = [parts.backbone(part) for part in X.split(CHUNK)]
    return checks.inputs(torch.cat(chunks), D, "the backbone's output").double()


def _choose_variances(layers: list[GPLayer], X: Float64[Tensor, "N D"], noise: float) -> None:
    """Chooses v and S of each layer, without labels; the mean stays what it is.

    v ← v f and m ← m f^(−½) leave A m unchanged; f = mean(m²) makes the weights look like draws from the prior.
    S_p S_pᵀ = (I + Aᵀ A / τ_p²)⁻¹ is the posterior covariance after the layer's own values have been observed at X with
    noise τ_p, relative to their spread `noise`.
    """
    for layer in layers:
        m = layer.q.mean.clone()
        f = m.square().mean().clamp_min(SMALLEST)
        layer.kernel.variance = layer.kernel.variance * f
        m = m / f.sqrt()
        A = layer.whiten(X)
        outputs = A @ m
        tau2 = (noise**2 * outputs.var(0)).clamp_min(SMALLEST)  # [P]
        layer.q.assign(m, posterior_scale((A.T @ A) / tau2[:, None, None]))  # [P, M, M]
        X = outputs


def _names(module: nn.Module) -> str:
    inner = [type(child).__name__ for child in module.children()]
    return ", ".join(inner) or type(module).__name__
