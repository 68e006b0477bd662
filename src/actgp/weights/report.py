"""What became of a network: layer by layer, and how far the deep GP's mean is from the network's outputs."""

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actgp.features.mismatch import OVERSHOOT_WARNING

if TYPE_CHECKING:
    from rich.table import Table

GOOD = 0.02  # an overall difference above it is shown in red
UNEXPLAINED_WARNING = 0.5


@dataclass(frozen=True)
class LayerConversion:
    """One activation of the network, and the GP layer that it became.

    Attributes:
        units: H, the network's units.
        num_inducing: M, the layer's: the units, and copies of them with shifted biases.
        activation: The activation's name.
        sharpness: The β that was chosen; None for ReLU, which has none.
        rank: The layer's outputs: codes for the next layer, or the network's outputs.
        energy: The part of the following linear map that they keep; 1 for the last layer.
        mapped_error: Relative RMSE of the layer's outputs with the network's weights as they are, up to a constant.
        refitted_error: Relative RMSE after the closed-form refit.
        unexplained: The mean fraction of the prior variance that the layer's features leave unexplained.
        num_levels: Ñ, the levels of the activation that are kept.
        overshoot: The size of the activation, cut after them, at t = ±1, relative to what it should be there.

    Example:
        >>> import actgp, torch
        >>> net = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Softplus(), torch.nn.Linear(8, 1))
        >>> model, report = actgp.convert_weights(net, torch.randn(200, 1))
        >>> report.layers[0].units, report.layers[0].activation
        (8, 'Softplus')
    """

    units: int
    num_inducing: int
    activation: str
    sharpness: float | None
    rank: int
    energy: float
    mapped_error: float
    refitted_error: float
    unexplained: float
    num_levels: int
    overshoot: float


@dataclass(frozen=True)
class WeightsReport:
    """A whole conversion.

    Attributes:
        layers: One record for each GP layer.
        backbone: What stays in front of the layers and why; empty where nothing does.
        ignored: Modules that do nothing in evaluation mode, and were left out.
        synthetic: Whether standard normal inputs stood in for data.
        num_rows: The rows on which errors were measured; they were not used for fitting.
        refitted_error: Relative RMSE of the outputs after the layer-by-layer refit.
        sweeps: How many joint sweeps improved on that.
        error: Relative RMSE of the deep GP's mean against the network's outputs: RMSE / standard deviation.

    Example:
        >>> import actgp, torch
        >>> net = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Softplus(), torch.nn.Linear(8, 1))
        >>> model, report = actgp.convert_weights(net, torch.randn(200, 1))
        >>> report.good
        True
    """

    layers: tuple[LayerConversion, ...]
    backbone: str
    ignored: tuple[str, ...]
    synthetic: bool
    num_rows: int
    refitted_error: float
    sweeps: int
    error: float

    @property
    def good(self) -> bool:
        """Whether the outputs differ by at most 2 %."""
        return self.error <= GOOD

    def render(self) -> "Table":
        """A table for rich; the overall difference is red where it exceeds 2 %."""
        rich, Text = importlib.import_module("rich.table"), importlib.import_module("rich.text").Text  # only now
        overall = Text(self._overall(), style="green" if self.good else "bold red")
        caption = Text("\n").join([overall, *(Text(line) for line in self._remarks())])
        table = rich.Table(title="network to deep GP", caption=caption, caption_justify="left")
        for name in _COLUMNS:
            table.add_column(name, justify="right")
        for i, layer in enumerate(self.layers, start=1):
            table.add_row(*_cells(i, layer))
        return table

    def __rich__(self) -> "Table":
        return self.render()

    def __str__(self) -> str:
        rows = [_COLUMNS, *(_cells(i, layer) for i, layer in enumerate(self.layers, start=1))]
        widths = [max(len(row[j]) for row in rows) for j in range(len(_COLUMNS))]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        return "\n".join([*lines, self._overall(), *self._remarks()])

    def _overall(self) -> str:
        text = (
            f"outputs differ by {self.error:.2%} (relative RMSE on {self.num_rows} rows not used for fitting; "
            f"{self.refitted_error:.2%} before {self.sweeps} joint sweeps)"
        )
        return text if self.good else f"! {text}; pass more data, a higher energy or a larger num_inducing"

    def _remarks(self) -> list[str]:
        found = []
        if self.synthetic:
            found.append("no X was given: standard normal inputs stood in for it, and errors hold for those only")
        if self.backbone:
            found.append(f"backbone: {self.backbone}")
        if self.ignored:
            found.append(f"ignored, as in evaluation mode: {', '.join(self.ignored)}")
        found += [
            f"! layer {i} leaves {layer.unexplained:.0%} of its prior variance unexplained, which widens predictions; "
            "a network with a smoother activation (softplus) leaves less"
            for i, layer in enumerate(self.layers, start=1)
            if layer.unexplained > UNEXPLAINED_WARNING
        ]
        found += [
            f"! the activation of layer {i}, cut after {layer.num_levels} levels, is {layer.overshoot:.2g} times too "
            "large at t = ±1, for inputs along a unit's weights; a network with a smoother activation has none of "
            "this, and fewer levels (num_levels) less, for a mean that is further from the network's"
            for i, layer in enumerate(self.layers, start=1)
            if layer.overshoot > OVERSHOOT_WARNING
        ]
        return found


_COLUMNS = ("layer", "units", "M", "activation", "β", "outputs", "energy", "mapped", "refitted", "unexplained")


def _cells(i: int, layer: LayerConversion) -> tuple[str, ...]:
    return (
        str(i),
        str(layer.units),
        str(layer.num_inducing),
        layer.activation,
        "" if layer.sharpness is None else f"{layer.sharpness:g}",
        str(layer.rank),
        f"{layer.energy:.4%}",
        f"{layer.mapped_error:.2%}",
        f"{layer.refitted_error:.2%}",
        f"{layer.unexplained:.2%}",
    )
