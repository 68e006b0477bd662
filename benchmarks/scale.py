"""Many rows: what an epoch costs, how much memory it takes, and how near the predictions come to the best there are.

python -m benchmarks.scale [--rows 1e6 --inputs 10 --contestant ours --processes 2 …]

Rows of a known function with noise of known, varying size are generated into files, which contestants train from. Each
contestant runs in a process of its own; a result is appended to results/scale.jsonl when it has ended, and a rerun does
what is missing.
"""

import importlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import gpytorch
import numpy as np
import torch
import typer
from torch import Tensor, distributed, nn
from torch.distributions import Normal

import actgp
from actgp_experiments.store import Store, revision

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results/scale.jsonl"
BLOCK, TEST_ROWS, SAMPLE = 100_000, 20_000, 20_000
BATCH, SVGP_STEPS, NETWORK_STEPS, MOST_EPOCHS, INDUCING = 1_000, 1_000, 10_000, 50, 512
SCALING_BATCH, SCALING_STEPS = 4_096, 20

Rows = tuple[Any, Any]  # X and y
Judge = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]  # log densities of targets, and means, at inputs


def mean(X: Any) -> Any:
    """f(x), of unit size: of the first five columns only."""
    return np.sin(2 * X[:, 0]) * X[:, 1] + 0.5 * np.tanh(2 * X[:, 2]) + 0.3 * X[:, 3] - 0.2 * X[:, 4] ** 2


def spread(X: Any) -> Any:
    """σ(x), from .1 to .7."""
    return np.exp(-1.3 + 0.9 * np.sin(1.5 * X[:, 0]))


def generate(N: int, D: int, folder: Path) -> Rows:
    """N rows in files, and 20,000 behind them to test on; the same in every run."""
    path, total = folder / f"{N}x{D}", N + TEST_ROWS
    if not path.with_suffix(".done").exists():
        X = np.memmap(path.with_suffix(".X"), np.float32, "w+", shape=(total, D))
        y = np.memmap(path.with_suffix(".y"), np.float32, "w+", shape=total)
        for start in range(0, total, BLOCK):
            g = np.random.default_rng([0, D, start])
            x = g.standard_normal((min(BLOCK, total - start), D), dtype=np.float32)
            X[start : start + BLOCK] = x
            y[start : start + BLOCK] = mean(x) + spread(x) * g.standard_normal(len(x), dtype=np.float32)
        X.flush()
        y.flush()
        path.with_suffix(".done").touch()
    X = np.memmap(path.with_suffix(".X"), np.float32, "r", shape=(total, D))
    return X, np.memmap(path.with_suffix(".y"), np.float32, "r", shape=total)


def ours(X: Any, y: Any) -> tuple[Judge, dict[str, Any]]:
    """`deep_gp` and `fit`, from the files, as they are by default."""
    marks: dict[str, list[float]] = {}

    def mark(step: actgp.Step) -> None:
        marks.setdefault(step.stage, []).append(time.process_time())

    model = actgp.deep_gp(X.shape[1], generator=torch.Generator().manual_seed(0))
    recipe = actgp.Recipe()
    result = actgp.fit(model, X, y, recipe, callback=mark, generator=torch.Generator().manual_seed(0), progress=False)
    steps = {stage: (times[-1] - times[0]) / (len(times) - 1) for stage, times in marks.items() if len(times) > 1}
    between = marks["posterior"][0] - marks["network"][-1]

    def judge(x: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        (found,) = actgp.predict_in_parts(model, [x])
        return found.log_prob(t), found.mean

    return judge, {
        "seconds_a_step": steps,
        "rows_a_step": recipe.batch_size,
        "seconds_between_stages": between,
        "steps": {stage: len(times) for stage, times in marks.items()},
        "stopped": result.stopped,
    }


def svgp(X: Any, y: Any) -> tuple[Judge, dict[str, Any]]:
    """GPyTorch's SVGP: 512 points, RBF with ARD, one noise; Adam at 0.01 on minibatches of 1,000."""

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self, Z: Tensor) -> None:
            q = gpytorch.variational.CholeskyVariationalDistribution(len(Z))
            super().__init__(gpytorch.variational.VariationalStrategy(self, Z, q, learn_inducing_locations=True))
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=Z.shape[1]))
            self.covar_module.base_kernel.lengthscale = Z.shape[1] ** 0.5

        def forward(self, x: Tensor) -> gpytorch.distributions.MultivariateNormal:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    model, likelihood = Model(torch.from_numpy(np.array(X[:INDUCING]))), gpytorch.likelihoods.GaussianLikelihood()
    elbo = gpytorch.mlls.VariationalELBO(likelihood, model, len(y))
    adam = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.01)
    began = time.process_time()
    for x, t in _minibatches(X, y, SVGP_STEPS):
        adam.zero_grad()
        (-elbo(model(x), t)).backward()
        adam.step()
    seconds = (time.process_time() - began) / SVGP_STEPS
    model.eval(), likelihood.eval()

    @torch.no_grad()
    def judge(x: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        found = likelihood(model(x))
        return Normal(found.mean, found.stddev).log_prob(t), found.mean

    return judge, {"seconds_a_step": {"svgp": seconds}, "rows_a_step": BATCH, "steps": {"svgp": SVGP_STEPS}}


def network(X: Any, y: Any) -> tuple[Judge, dict[str, Any]]:
    """Two hidden layers of 128 units, a mean and a variance, by the Gaussian log-likelihood; at most 50 epochs."""
    torch.manual_seed(0)
    steps = min(NETWORK_STEPS, MOST_EPOCHS * -(-len(y) // BATCH))
    net = nn.Sequential(nn.Linear(X.shape[1], 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU(), nn.Linear(128, 2))
    adam = torch.optim.Adam(net.parameters(), lr=0.003)
    rates = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
    began = time.process_time()
    for x, t in _minibatches(X, y, steps):
        adam.zero_grad()
        m, s = net(x).unbind(1)
        nn.functional.gaussian_nll_loss(m, t, nn.functional.softplus(s) + 1e-4).backward()
        adam.step()
        rates.step()
    seconds = (time.process_time() - began) / steps

    @torch.no_grad()
    def judge(x: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        m, s = net(x).unbind(1)
        return Normal(m, (nn.functional.softplus(s) + 1e-4).sqrt()).log_prob(t), m

    return judge, {"seconds_a_step": {"network": seconds}, "rows_a_step": BATCH, "steps": {"network": steps}}


def lightgbm(X: Any, y: Any) -> tuple[Judge, dict[str, Any]]:
    """LightGBM for the mean, on nine tenths, and for the logarithm of squared residuals, on the rest: all in memory."""
    gbm: Any = importlib.import_module("lightgbm")
    options = {"verbosity": -1, "num_threads": torch.get_num_threads(), "num_leaves": 63, "learning_rate": 0.1}
    last = len(y) - len(y) // 10
    began = time.process_time()
    first = gbm.train(options, gbm.Dataset(np.array(X[:last]), np.array(y[:last])), 300)
    residuals = np.array(y[last:]) - first.predict(np.array(X[last:]))
    logarithms = np.log(residuals**2 + 1e-6) + 1.27  # E[log χ²₁] = −1.27
    second = gbm.train(options, gbm.Dataset(np.array(X[last:]), logarithms), 100)

    def judge(x: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        m, logs = (torch.from_numpy(forest.predict(x.numpy())) for forest in (first, second))
        return Normal(m, (0.5 * logs).exp()).log_prob(t), m

    return judge, {"seconds_of_training": time.process_time() - began}


CONTESTANTS = {"ours": ours, "svgp": svgp, "network": network, "lightgbm": lightgbm}


def _minibatches(X: Any, y: Any, steps: int) -> Any:
    """Shuffled rows of buffers that are read from all over the files."""
    g = np.random.default_rng(0)
    size = min(len(y), 131_072)
    given = 0
    while given < steps:
        starts = g.integers(0, max(1, len(y) - size // 16), 16) if size < len(y) else [0]
        runs = [slice(s, s + -(-size // len(starts))) for s in starts]
        x, t = (torch.from_numpy(np.concatenate([np.array(values[run]) for run in runs])) for values in (X, y))
        for rows in torch.from_numpy(g.permutation(len(t))).split(BATCH):
            if given == steps or len(rows) < BATCH <= len(t):
                break
            yield x[rows], t[rows]
            given += 1


def measure(name: str, N: int, D: int, folder: Path) -> dict[str, Any]:
    """One contestant on N rows of D columns."""
    torch.set_num_threads(1)
    X, y = generate(N, D, folder)
    before, began = time.process_time(), time.perf_counter()
    judge, about = CONTESTANTS[name](X[:N], y[:N])
    cpu, wall = time.process_time() - before, time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    test, targets = torch.from_numpy(np.array(X[N:])), torch.from_numpy(np.array(y[N:]))
    began_predicting = time.process_time()
    parts = [judge(x, t) for x, t in zip(test.split(2_000), targets.split(2_000), strict=True)]
    density, means = (torch.cat(values) for values in zip(*parts, strict=True))
    predicting = time.process_time() - began_predicting
    m, s = (torch.from_numpy(np.asarray(f(test.numpy()))) for f in (mean, spread))
    epoch = {k: v * N / about["rows_a_step"] for k, v in about.get("seconds_a_step", {}).items()}
    return {
        **about,
        "cpu_seconds": cpu,
        "wall_seconds": wall,
        "cpu_seconds_an_epoch": epoch,
        "peak_mib": peak,
        "nlpd": -density.mean().item(),
        "optimum": -Normal(m, s).log_prob(targets).mean().item(),
        "rmse_to_f": (means - m).square().mean().sqrt().item(),
        "rows_predicted_a_cpu_second": len(test) / predicting,
    }


def scaling(K: int, D: int, folder: Path) -> dict[str, Any]:
    """Rows a second of a rank of K in either stage: the same minibatches of 4,096, of which each has its part."""
    torch.set_num_threads(1)
    rank = int(os.environ.get("RANK", "0"))
    X, y = (torch.from_numpy(np.array(values[:SAMPLE])) for values in generate(SAMPLE, D, folder))
    marks: dict[str, list[tuple[float, float]]] = {}

    def mark(step: actgp.Step) -> None:
        marks.setdefault(step.stage, []).append((time.perf_counter(), time.process_time()))

    model = actgp.deep_gp(D, generator=torch.Generator().manual_seed(0))
    recipe = actgp.Recipe(
        network_steps=SCALING_STEPS,
        num_steps=SCALING_STEPS,
        batch_size=SCALING_BATCH,
        validation=0.0,
        calibrate=False,
        use_all_rows=False,
    )
    actgp.fit(model, X, y, recipe, callback=mark, generator=torch.Generator().manual_seed(0), progress=False)
    sent = 4 * sum(p.numel() for p in model.parameters())
    found: dict[str, Any] = {"rank": rank, "bytes_a_step": sent, "rows_a_step": SCALING_BATCH}
    for stage, times in marks.items():
        (wall, cpu), (wall_end, cpu_end) = times[2], times[-1]
        rows = SCALING_BATCH * (len(times) - 3)
        found[stage] = {
            "rows_a_wall_second": rows / (wall_end - wall),
            "rows_a_cpu_second_of_a_rank": rows / (cpu_end - cpu),
        }
    return found


def main(
    rows: Annotated[list[float] | None, typer.Option(help="N; may be repeated. 1e4 to 1e7 by default.")] = None,
    inputs: Annotated[list[int] | None, typer.Option(help="D; may be repeated. 10 and 90 by default.")] = None,
    contestant: Annotated[list[str] | None, typer.Option(help="Which; all by default.")] = None,
    processes: Annotated[list[int] | None, typer.Option(help="K of strong scaling; 1, 2 and 4 by default.")] = None,
    results: Annotated[Path, typer.Option(help="Where results are appended.")] = RESULTS,
    folder: Annotated[Path | None, typer.Option(help="Where generated rows go: 4 GB at 1e7 × 90.")] = None,
    cell: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Runs what is missing."""
    folder = Path(tempfile.gettempdir()) / "actgp-scale" if folder is None else folder
    folder.mkdir(parents=True, exist_ok=True)
    if cell is not None:
        work = json.loads(cell)
        found = (
            scaling(work["processes"], work["inputs"], folder)
            if "processes" in work
            else measure(work["contestant"], work["rows"], work["inputs"], folder)
        )
        sys.stdout.write("\n" + json.dumps(found) + "\n")
        if distributed.is_initialized():
            distributed.destroy_process_group()
        return
    sizes = [int(n) for n in rows or [1e4, 1e5, 1e6, 1e7]]
    wanted: list[dict[str, Any]] = [
        {"contestant": name, "rows": N, "inputs": D}
        for N, D, name in product(sizes, inputs or [10, 90], contestant or list(CONTESTANTS))
    ]
    wanted += [{"processes": K, "inputs": D} for K, D in product(processes or [1, 2, 4], inputs or [10, 90])]
    store = Store(results)
    store.claim()
    done = [record["cell"] for record in store.records()]
    for work in (work for work in wanted if work not in done):
        store.append(_run(work, folder))
        sys.stdout.write(f"{work}\n")


def _run(work: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A cell, in a process of its own or in several; what it says, and how busy the machine was meanwhile."""
    K = work.get("processes", 1)
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={K}"] if K > 1 else []
    script = ["-m", "benchmarks.scale", "--folder", str(folder), "--cell", json.dumps(work)]
    before = os.getloadavg()[0]
    done = subprocess.run(
        [sys.executable, *launch, *script],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {
        "cell": work,
        "revision": revision(),
        "load_before_and_after": [before, os.getloadavg()[0]],
        "cores": os.cpu_count(),
        **(said[0] if "processes" not in work else {"ranks": said, "oversubscribed": (os.cpu_count() or 1) < K}),
    }


if __name__ == "__main__":
    typer.run(main)
