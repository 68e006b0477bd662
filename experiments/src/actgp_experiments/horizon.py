"""How far out `forget_beyond` puts a classifier's horizon, chosen by training rows of banana that are left out.

For models of one and three layers, as in the banana experiment, each fifth of the 400 rows is left out in turn. The
rule: of all factors the smallest one with which the mean log-likelihood of rows that are left out, over folds and
depths, is at most .002 nats below that without a horizon. Some of these rows lie outside of all that a model was
trained on, which is what a horizon may cost.
"""

from collections.abc import Iterator, Sequence
from statistics import fmean

import torch
from gpytorch.likelihoods import BernoulliLikelihood

from actgp.models import Layers, deep_gp, forget_beyond
from actgp.models.edge import BEYOND
from actgp.training import Recipe, fit
from actgp_experiments.banana import NUM_INDUCING, RECIPE, data
from actgp_experiments.store import Record, revision

FACTORS = (1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2, 2.5, 3.0)
FOLDS, DEPTHS = 5, (1, 3)
PRICE = 0.002  # nats for each row


def horizon_choices(recipe: Recipe = RECIPE, num_inducing: int = NUM_INDUCING) -> Iterator[Record]:
    """The log-likelihood of each fold without a horizon, and with one at each factor of the largest radius."""
    code, (train, _) = revision(), data()
    folds = torch.randperm(len(train.y), generator=torch.Generator().manual_seed(0)).chunk(FOLDS)
    for depth in DEPTHS:
        for k, held in enumerate(folds):
            some = torch.cat([rows for i, rows in enumerate(folds) if i != k])
            g = torch.Generator().manual_seed(0)
            layers, likelihood = Layers(kernel="matched", num_points=0), BernoulliLikelihood()
            model = deep_gp(2, 1, depth, num_inducing, layers=layers, likelihood=likelihood, generator=g).double()
            fit(model, train.X[some], train.y[some], recipe, generator=g, progress=False)
            largest = forget_beyond(model, train.X[some]) / BEYOND
            found = {}
            for factor in (None, *FACTORS):
                model.gp_layers[-1].horizon = None if factor is None else factor * largest
                found[str(factor)] = model.predict(train.X[held]).log_prob(train.y[held]).mean().item()
            yield {"experiment": "horizon", "layers": depth, "fold": k, "log_likelihood": found, "revision": code}


def chosen_factor(records: Sequence[Record]) -> float:
    """By the rule above; the largest factor if none keeps to it."""

    def score(factor: float | None) -> float:
        return fmean(record["log_likelihood"][str(factor)] for record in records)

    least = score(None) - PRICE
    return next((factor for factor in FACTORS if score(factor) >= least), FACTORS[-1])
