"""Two classes, generated and bundled: a network, and a GP with activated features and a Bernoulli likelihood."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from gpytorch.likelihoods import BernoulliLikelihood
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, make_moons
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from actgp.features import ActivatedFeatures
from actgp.kernels import ArcCosine
from actgp.models import SVGP
from actgp.training import fit

NUM_INDUCING = 50
SEED = 0

Array = NDArray[np.float64]
Probability = Callable[[Array], Array]  # inputs [N, D] to p(y = 1), [N]


class Score(NamedTuple):
    """How a model does on held-out data."""

    data: str
    model: str
    accuracy: float
    log_likelihood: float


def data_sets() -> dict[str, tuple[Array, NDArray[np.int64]]]:
    """Moons, which are generated, and breast cancer, which comes with scikit-learn."""
    return {
        "moons": make_moons(300, noise=0.25, random_state=SEED),
        "breast cancer": load_breast_cancer(return_X_y=True),
    }


def network(X: Array, y: NDArray[np.int64]) -> Probability:
    """A network with as many hidden units, trained on the cross-entropy."""
    model = MLPClassifier(
        hidden_layer_sizes=(NUM_INDUCING,), max_iter=5_000, n_iter_no_change=100, random_state=SEED
    ).fit(X, y)
    return lambda X: model.predict_proba(X)[:, 1]


def activated(X: Array, y: NDArray[np.int64]) -> Probability:
    """A variational GP with activated features, trained on the ELBO."""
    generator = torch.Generator().manual_seed(SEED)
    features = ActivatedFeatures(X.shape[1], NUM_INDUCING, "softplus", generator=generator)
    model = SVGP(ArcCosine(X.shape[1]), features, BernoulliLikelihood()).double()
    inputs, labels = torch.from_numpy(X), torch.from_numpy(y)
    fit(model, inputs, labels, generator=generator)
    return lambda X: model.predict(torch.from_numpy(X)).mean.numpy()


MODELS: dict[str, Callable[[Array, NDArray[np.int64]], Probability]] = {
    "network": network,
    "variational GP, activated units": activated,
}


def scores() -> Iterator[Score]:
    """Fits every model to every data set, one at a time."""
    for data, (X, y) in data_sets().items():
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=SEED, stratify=y)
        scaler = StandardScaler().fit(X_train)
        for name, model in MODELS.items():
            p = model(scaler.transform(X_train), y_train)(scaler.transform(X_test))
            yield Score(data, name, float(accuracy_score(y_test, p > 0.5)), -float(log_loss(y_test, p)))
