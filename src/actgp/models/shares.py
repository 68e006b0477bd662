"""Where the variance of predictions comes from.

To first order a layer's variance reaches an output through its sensitivity along the means, J_ℓp = ∂f_L/∂h_ℓp:

    Var[y] ≈ Σ_ℓ Σ_p J_ℓp² var_ℓp + noise,     var_p = (k − Σ A²) + Σ (A_u S_up)² + Σ (A_v S_vp)²
                                                       unexplained   posterior of u  orthogonal part
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from actgp.layers import GPLayer, WhitenedGaussian, mean_function
from actgp.likelihoods import adapter_of
from actgp.models.deep import DeepGP
from actgp.models.sgpr import SGPR


@dataclass(frozen=True)
class LayerShares:
    """What a layer contributes to the variance of predictions, as parts of the whole.

    Attributes:
        unexplained: Prior variance that its inducing variables do not explain: no training removes it.
        posterior: What is not known of its inducing variables; where there are several groups, of the first.
        orthogonal: What is not known of the other groups: of the points beside activations.
    """

    unexplained: float
    posterior: float
    orthogonal: float


@dataclass(frozen=True)
class VarianceShares:
    """What the variance of predictions is made of; all parts together are one.

    Attributes:
        layers: What each layer contributes.
        noise: What is left if all functions are known: the noise of a Gaussian likelihood. Zero for other likelihoods,
            where the variance is that of the latent functions.
    """

    layers: tuple[LayerShares, ...]
    noise: float

    @property
    def unexplained(self) -> float:
        """Prior variance that stays, over all layers."""
        return sum(layer.unexplained for layer in self.layers)

    def __str__(self) -> str:
        lines = [f"{'variance of predictions':<26}{'unexplained':>12}{'posterior':>12}{'orthogonal':>12}"]
        for i, layer in enumerate(self.layers, start=1):
            parts = (layer.unexplained, layer.posterior, layer.orthogonal)
            lines.append(f"{f'layer {i}':<26}" + "".join(f"{part:>12.1%}" for part in parts))
        return "\n".join([*lines, f"{'noise':<26}{self.noise:>12.1%}"])


def shares_of_deep(model: DeepGP, X: Tensor) -> VarianceShares:
    """The shares of a deep model, on average over rows and outputs."""
    inputs = model.hidden_means(X)
    parts = []
    for layer, h, squared in zip(model.gp_layers, inputs, _squared_sensitivities(model, inputs[0]), strict=True):
        parts.append(torch.stack([(squared * part).sum(-1).mean() for part in _parts(layer, h)]))
    adapter = adapter_of(model.likelihood)
    noise = adapter.noise_variance(adapter.relative_noise(inputs[-1]))
    of_rows = X.new_zeros(()) if noise is None else noise.mean()
    return _normalised(torch.stack(parts), of_rows * model.num_outputs)


def shares_of_sgpr(model: SGPR, X: Float[Tensor, "N D"]) -> VarianceShares:
    """The shares of a model whose q(u) is the best one."""
    mean, scale_tril = model.posterior()
    layer = GPLayer(model.kernel, model.features)
    layer.q = WhitenedGaussian(len(mean), 1).double()  # one group, whatever the features say
    layer.q.assign(mean[:, :1], scale_tril.unsqueeze(0))
    return shares_of_deep(DeepGP([layer], model.likelihood), X.double())


def _normalised(parts: Float[Tensor, "L 3"], noise: Float[Tensor, ""]) -> VarianceShares:
    whole = (parts.double().sum() + noise.double()).clamp_min(torch.finfo(torch.float64).tiny)
    layers = (parts.double() / whole).tolist()
    return VarianceShares(tuple(LayerShares(*layer) for layer in layers), (noise.double() / whole).item())


def _parts(layer: GPLayer, h: Float[Tensor, "N D"]) -> list[Float[Tensor, "N P"]]:
    """Unexplained, posterior, orthogonal: the parts of a layer's variance."""
    X, _ = layer.split(h)
    beyond = layer.beyond
    stays = layer.unexplained(h) * (layer.kernel(X, diag=True) + (0.0 if beyond is None else beyond.variance(X)))
    C = layer.whiten(h) @ layer.q.scale_tril  # [P, N, M]
    first, *others = (block.square().sum(-1).T for block in C.split(layer.q.blocks, dim=-1))  # [N, P]
    return [stays.unsqueeze(-1).expand_as(first), first, sum(others, torch.zeros_like(first))]


@torch.enable_grad()
def _squared_sensitivities(model: DeepGP, h: Float[Tensor, "N D"]) -> list[Tensor]:
    """Σ over outputs of J² for the outputs of each layer, [N, P]."""
    outputs, h = [], h.detach().requires_grad_()
    for layer in model.gp_layers:
        h = mean_function(layer)(h)
        outputs.append(h)
    total = [torch.zeros_like(output) for output in outputs]
    for output in outputs[-1].unbind(-1):
        gradients = torch.autograd.grad(output.sum(), outputs, retain_graph=True)
        total = [before + gradient.square() for before, gradient in zip(total, gradients, strict=True)]
    return [values.detach() for values in total]
