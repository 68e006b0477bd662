"""What `uncertain` did, as text and as a page."""

import importlib
import os
from dataclasses import dataclass
from pathlib import Path

from actgp.convert import ConversionReport, Softening
from actgp.training import FitResult
from actgp.training.recipe import NetworkErrors
from actgp.uncertain.assess import Assessment

FORMATS = (".html", ".png")


@dataclass(frozen=True)
class UncertaintyReport:
    """What `uncertain` did: what the GP was put around, what fitting took, and scores before and after.

    Attributes:
        conversion: The report of `convert`.
        fit: The result of `fit`.
        num_rows: How many rows of X there were.
        num_held_out: How many held-out rows; 0 for none.
        assessed_on: Which rows the scores are of.
        network: Scores of the network alone, with one variance where noise is Gaussian.
        model: Scores of the model.
        softening: How far logits are believed; None for other targets, and without held-out rows.

    Example:
        >>> import actgp, torch
        >>> net, X = torch.nn.Linear(2, 1), torch.randn(100, 2)
        >>> model, report = actgp.uncertain(net, X, X.sum(1) + 0.1 * torch.randn(100), progress=False)
        >>> report.model.nlpd < report.network.nlpd
        True
    """

    conversion: ConversionReport
    fit: FitResult
    num_rows: int
    num_held_out: int
    assessed_on: str
    network: Assessment
    model: Assessment
    softening: Softening | None = None

    @property
    def title(self) -> str:
        """One line."""
        return f"{self.conversion.network} with uncertainty"

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """What was done, as pairs of a name and a sentence."""
        return (
            ("the GP sees", self.conversion.sees),
            ("inducing points", str(self.conversion.num_inducing)),
            ("before fitting", f"mean and network differ by {self.conversion.difference:.2g} at most"),
            ("width chosen by", self._width()),
            *([] if self.fit.errors is None else [("network's RMSE", self._errors(self.fit.errors))]),
            *([] if self.softening is None else [("away from data", str(self.softening))]),
            ("fitting took", f"{self.fit.seconds:.1f} s"),
            ("scores are of", self._rows()),
        )

    @property
    def scores(self) -> tuple[tuple[str, str, str], ...]:
        """Name of each score, the network's and the model's."""
        a, b = self.network, self.model
        if a.labels:
            return (
                ("accuracy", f"{1 - a.error:.1%}", f"{1 - b.error:.1%}"),
                ("mean confidence", f"{a.coverage:.1%}", f"{b.coverage:.1%}"),
                ("log-likelihood", f"{-a.nlpd:.3f}", f"{-b.nlpd:.3f}"),
            )
        return (
            ("RMSE", f"{a.error:.4g}", f"{b.error:.4g}"),
            ("NLPD", f"{a.nlpd:.3f}", f"{b.nlpd:.3f}"),
            ("inside 95 % intervals", f"{a.coverage:.1%}", f"{b.coverage:.1%}"),
        )

    def __str__(self) -> str:
        names = max(len(row[0]) for row in (*self.facts, *self.scores))
        lines = [self.title, "", *(f"{name:<{names}}  {said}" for name, said in self.facts), ""]
        lines.append(f"{'':<{names}}  {'network':>10} {'model':>10}")
        lines += [f"{name:<{names}}  {before:>10} {after:>10}" for name, before, after in self.scores]
        lines += ["", *self._curves(names)]
        return "\n".join(lines)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes one page, .html or .png; needs matplotlib, which comes with `pip install actgp[cli]`."""
        if Path(path).suffix.lower() not in FORMATS:
            raise ValueError(
                f"a report is written as one of {', '.join(FORMATS)}, got {str(path)!r}; choose one of these endings"
            )
        try:
            page = importlib.import_module("actgp.uncertain.page")
        except ImportError as error:
            raise ImportError(
                f"a page needs matplotlib, got none of it ({error}); pip install actgp[cli], or print the report"
            ) from error
        page.write(self, Path(path))

    def _width(self) -> str:
        if self.num_held_out:
            return f"{self.num_held_out} held-out rows"
        return f"the {self.num_rows} rows of X, which the network may have seen: pass held_out to be sure"

    def _errors(self, errors: NetworkErrors) -> str:
        others = "when its last layer leaves a row out" if self.num_held_out == 0 else "on held-out rows"
        said = f"{errors.training**0.5:.3g} on X, {errors.new**0.5:.3g} {others}"
        return f"{said}: it overfits X" if errors.overfits else said

    def _rows(self) -> str:
        said = f"{self.model.rows} {self.assessed_on}"
        if self.assessed_on == "test rows":
            return said
        chosen = "by which widths were chosen" if self.num_held_out else "on which all was fitted"
        return f"{said}, {chosen}; pass test for others"

    def _curves(self, width: int) -> list[str]:
        """The calibration as text: levels are shared, probabilities of classes are each its own."""
        if not self.model.labels:
            pairs = zip(self.network.calibration, self.model.calibration, strict=True)
            rows = [f"{f'inside {level:.0%}':<{width}}  {a:>10.1%} {b:>10.1%}" for (level, a), (_, b) in pairs]
            return [f"{'intervals':<{width}}  {'network':>10} {'model':>10}", *rows]
        rows = [f"{'confidence':<{width}}  {'right':>10}"]
        for who, found in (("network", self.network), ("model", self.model)):
            rows += [f"{f'{who}, {p:.0%}':<{width}}  {right:>10.0%}" for p, right in found.calibration]
        return rows
