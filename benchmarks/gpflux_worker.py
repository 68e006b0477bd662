"""GPflux's deep GP, in an environment of its own, as a worker that runs a step or a prediction when it is told to.

GPflux needs TensorFlow, which does not share an environment with this project:

    python3.11 -m venv .gpflux
    .gpflux/bin/pip install 'tensorflow-cpu==2.15.1' 'gpflux==0.4.4' 'numpy<2'
    ACTGP_GPFLUX_PYTHON=.gpflux/bin/python make bench

The first line of its input is the problem, as JSON; every line after it is "step" or "predict", and is answered by
"done" when that is complete.
"""

import json
import os
import sys
from collections.abc import Callable
from itertools import pairwise

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import gpflow
import gpflux
import numpy as np
import tensorflow as tf


def build(problem: dict[str, int]) -> gpflux.models.DeepGP:
    """RBF kernels with ARD, one for each layer; inducing points shared by the outputs; a full S for each output."""
    D, M = problem["input_dim"], problem["num_inducing"]
    rng = np.random.default_rng(0)
    layers = []
    widths = [D, D, D, problem["num_outputs"]]
    for i, (inputs, outputs) in enumerate(pairwise(widths)):
        kernel = gpflux.helpers.construct_basic_kernel(
            gpflow.kernels.SquaredExponential(lengthscales=np.ones(inputs)), output_dim=outputs, share_hyperparams=True
        )
        inducing = gpflux.helpers.construct_basic_inducing_variables(
            M, inputs, output_dim=outputs, share_variables=True, z_init=rng.normal(size=(M, inputs))
        )
        last = i == len(widths) - 2
        mean = gpflow.mean_functions.Zero() if last else gpflow.mean_functions.Identity()
        layers.append(
            gpflux.layers.GPLayer(kernel, inducing, problem["num_data"], mean_function=mean, num_samples=None)
        )
    likelihood = gpflux.layers.LikelihoodLayer(gpflow.likelihoods.Gaussian(0.01))
    return gpflux.models.DeepGP(layers, likelihood, num_data=problem["num_data"])


def commands(problem: dict[str, int]) -> dict[str, Callable[[], None]]:
    """A compiled step of ELBO, gradient and Adam; a compiled prediction."""
    model = build(problem)
    rng = np.random.default_rng(1)
    default = gpflow.default_float()
    X = tf.constant(rng.normal(size=(problem["batch"], problem["input_dim"])), dtype=default)
    y = tf.constant(rng.normal(size=(problem["batch"], problem["num_outputs"])), dtype=default)
    inputs = rng.normal(size=(problem["rows"], problem["input_dim"]))
    model.elbo((X, y))  # builds the layers
    adam = tf.keras.optimizers.Adam(1e-3)
    variables = model.trainable_variables

    @tf.function
    def step() -> None:
        with tf.GradientTape() as tape:
            loss = -model.elbo((X, y))
        adam.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    @tf.function
    def predict(part: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        paths = tf.tile(part, [problem["prediction_samples"], 1])
        return model.predict_f(paths)

    def run_prediction() -> None:
        for part in np.array_split(inputs, max(1, problem["rows"] // 1_000)):
            predict(tf.constant(part, dtype=default))

    return {"step": lambda: step() and None, "predict": run_prediction}


def main() -> None:
    """Reads commands until there are no more."""
    problem = json.loads(sys.stdin.readline())
    gpflow.config.set_default_float({32: np.float32, 64: np.float64}[problem.pop("bits")])
    tf.keras.backend.set_floatx("float32" if gpflow.default_float() is np.float32 else "float64")
    gpflow.config.set_default_jitter(1e-4 if gpflow.default_float() is np.float32 else 1e-6)
    known = commands(problem)
    for line in sys.stdin:
        known[line.strip()]()
        print("done", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
