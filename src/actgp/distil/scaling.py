"""What stands between data and a model: columns of X and targets, standardised."""

from jaxtyping import Float
from torch import Tensor, nn

from actgp.distil.outputs import Classes, LongTailed, Normals, Outputs


class Scaling(nn.Module):
    """x ↦ (x − c) / s, and T(y) ↦ b + a T(y); in the precision of x, before the model's own.

    Args:
        centre: c.
        scale: s.
        target_centre: b; none for classes.
        target_scale: a.
        tail: What T is (`long_tail`); None where it is T(y) = y.
    """

    centre: Tensor
    scale: Tensor
    target_centre: Tensor
    target_scale: Tensor
    tail: Tensor | None

    def __init__(
        self,
        centre: Float[Tensor, " D"],
        scale: Float[Tensor, " D"],
        target_centre: Float[Tensor, " P"],
        target_scale: Float[Tensor, " P"],
        tail: Float[Tensor, "4 P"] | None = None,
    ) -> None:
        super().__init__()
        values = {"centre": centre, "scale": scale, "target_centre": target_centre, "target_scale": target_scale}
        for name, given in values.items():
            self.register_buffer(name, given.detach().double().clone())
        self.register_buffer("tail", None if tail is None else tail.detach().double().clone())

    def inputs(self, X: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
        """X in the units of the model."""
        return (X - self.centre.to(X.dtype)) / self.scale.to(X.dtype)

    def outputs(self, outputs: Outputs) -> Outputs:
        """What a model says, in the units of y."""
        if isinstance(outputs, Classes):
            return outputs
        b, a = (values.to(outputs.mean.dtype) for values in (self.target_centre, self.target_scale))
        if outputs.mean.ndim == 1:
            b, a = b[0], a[0]
        mean, epistemic, aleatoric, weights, means, variances = outputs[:6]
        found = Normals(b + a * mean, a * epistemic, a * aleatoric, weights, b + a * means, a.square() * variances)
        if self.tail is None:
            return found
        tail = self.tail.to(mean.dtype)
        return LongTailed.of(found, tail[:, 0] if mean.ndim == 1 else tail)
