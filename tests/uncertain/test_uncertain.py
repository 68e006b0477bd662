"""A network made uncertain in one line, and what the report says of it."""

import copy
import importlib
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from gpytorch.likelihoods.poisson_likelihood import PoissonLikelihood
from torch import Tensor, nn
from torch.distributions import Normal
from torch.utils.data import DataLoader

import actgp
from actgp.uncertain.assess import assess, network_alone
from actgp.uncertain.convert_and_fit import fit as whole_fit

STEPS = actgp.Recipe(network_steps=0, num_steps=5, objective="elbo", num_samples=1)


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(model: actgp.DeepGP, X: Tensor, y: Tensor, **options: object) -> actgp.FitResult:
        return whole_fit(model, X, y, STEPS, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(importlib.import_module("actgp.uncertain.convert_and_fit"), "fit", fit)


def rows(generator: torch.Generator, N: int = 60) -> tuple[nn.Module, Tensor, Tensor]:
    X = torch.randn(N, 3, generator=generator)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1))
    with torch.no_grad():
        return network, X, network(X)[:, 0] + 0.3 * torch.randn(N, generator=generator)


def test_scores_of_a_network_are_those_of_its_error(generator: torch.Generator) -> None:
    network, X, y = rows(generator)
    before = copy.deepcopy(network.state_dict())
    held_out, test = (X[30:45], y[30:45]), (X[45:], y[45:])
    model, report = actgp.uncertain(network, X[:30], y[:30], held_out, test=test, generator=generator, progress=False)
    assert all(torch.equal(values, before[name]) for name, values in network.state_dict().items())
    with torch.no_grad():
        f = network(X)[:, 0]
    spread = (f - y)[30:45].square().mean().sqrt()
    assert report.network.rows == 15
    assert report.network.error == pytest.approx((f - y)[45:].square().mean().sqrt().item(), rel=1e-5)
    assert report.network.nlpd == pytest.approx(-Normal(f[45:], spread).log_prob(y[45:]).mean().item(), rel=1e-4)
    inside = (y[45:] - f[45:]).abs() <= 1.6448536 * spread
    assert dict(report.network.calibration)[0.9] == pytest.approx(inside.double().mean().item())
    assert report.model == assess(model.predict(X[45:]), y[45:])
    text = str(report)
    for said in (
        "3 inputs and the 16 features that enter layer 2",
        "15 held-out rows\n",
        "15 test rows\n",
        "inside 95 %",
    ):
        assert said in text


def test_without_other_rows_the_report_says_so(generator: torch.Generator) -> None:
    network, X, y = rows(generator)
    _, report = actgp.uncertain(network, X, y, generator=generator, progress=False)
    assert "the 60 rows of X, which the network may have seen: pass held_out" in str(report)
    assert "60 rows of X, on which all was fitted; pass test for others" in str(report)
    _, report = actgp.uncertain(network, X[:40], y[:40], (X[40:], y[40:]), generator=generator, progress=False)
    assert "20 held-out rows, by which widths were chosen; pass test for others" in str(report)


@pytest.mark.parametrize("several", [False, True])
def test_batches_of_a_loader_are_the_same_as_all_rows(several: bool, generator: torch.Generator) -> None:
    class Sum(nn.Module):
        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return a.sum(1) + b.sum(1)

    network, X, y = rows(generator)
    given = (X, 2 * X) if several else X
    network = Sum() if several else network
    parts = given if isinstance(given, tuple) else (given,)
    cut = [tuple(values[i : i + 25] for values in parts) for i in range(0, len(y), 25)]
    batches = [(part if several else part[0], y[25 * i : 25 * i + 25]) for i, part in enumerate(cut)]
    loader = DataLoader(batches, batch_size=None)  # type: ignore[arg-type]
    reports = [
        actgp.uncertain(network, *data, generator=torch.Generator().manual_seed(0), progress=False)[1]
        for data in ((given, y), (loader,))
    ]
    assert reports[0].network == reports[1].network
    assert reports[0].conversion == reports[1].conversion
    assert "60 rows of X, on which all was fitted" in str(reports[1])


def test_targets_are_needed(generator: torch.Generator) -> None:
    network, X, _ = rows(generator)
    with pytest.raises(
        ValueError, match=r"y must be the targets of X, got None; pass them, or a DataLoader that gives"
    ):
        actgp.uncertain(network, X)


def test_a_network_that_overfits_is_said_to(generator: torch.Generator) -> None:
    network, X, y = rows(generator)
    with torch.no_grad():
        seen = network(X)[:, 0] + 0.1 * (y - network(X)[:, 0])
    _, report = actgp.uncertain(network, X[:30], seen[:30], (X[30:], y[30:]), generator=generator, progress=False)
    training, new = (
        (network(X)[:, 0] - t)[part].square().mean().sqrt() for t, part in ((seen, slice(30)), (y, slice(30, None)))
    )
    assert f"network's RMSE         {training:.3g} on X, {new:.3g} on held-out rows: it overfits X\n" in str(report)
    _, report = actgp.uncertain(network, X, y, generator=generator, progress=False)
    assert " when its last layer leaves a row out\n" in str(report)


def test_labels(generator: torch.Generator) -> None:
    network, X, y = rows(generator)
    labels = (y > y.median()).long()
    _, report = actgp.uncertain(network, X, labels, generator=generator, progress=False)
    with torch.no_grad():
        p = network(X)[:, 0].sigmoid()
    assert report.network.labels
    assert report.network.error == pytest.approx(((p > 0.5) != labels.bool()).double().mean().item())
    right = torch.where(labels.bool(), p, 1 - p)
    assert report.network.nlpd == pytest.approx(-right.log().mean().item(), rel=1e-4)
    assert report.network.coverage == pytest.approx(torch.maximum(p, 1 - p).mean().item(), rel=1e-5)
    assert f"{1 - report.model.error:.1%}" in str(report)
    assert "mean confidence" in str(report)


def test_labels_of_held_out_rows_soften_logits(generator: torch.Generator) -> None:
    network, X, y = rows(generator)
    labels = (y > y.median()).long()
    model, report = actgp.uncertain(network, X[:40], labels[:40], (X[40:], labels[40:]), progress=False)
    assert report.softening is not None
    assert str(report.softening) in str(report)
    assert report.model.error == report.network.error
    assert torch.equal(model.mean(X) > 0, network(X) > 0)


def test_calibration_of_labels_counts_in_bins() -> None:
    outputs = torch.tensor([0.9, 0.9, 0.9, 0.6]).logit()[:, None]
    found = assess(network_alone(outputs, actgp.BernoulliLogitLikelihood(), None), torch.tensor([1, 1, 0, 1]))
    expected = [(0.6, 1.0), (0.9, 2 / 3)]
    torch.testing.assert_close(torch.tensor(found.calibration), torch.tensor(expected), rtol=1e-4, atol=0)


def test_counts_and_several_inputs(generator: torch.Generator) -> None:
    class Rates(nn.Module):
        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return (a.sum(1) + b.sum(1)).tanh()

    a, b = torch.randn(2, 50, 2, generator=generator)
    counts = torch.poisson(Rates()(a, b).exp(), generator=generator)
    X = {"a": a, "b": b}
    model, report = actgp.uncertain(
        Rates(), X, counts, likelihood=PoissonLikelihood(), generator=generator, progress=False
    )
    assert torch.isfinite(model.predict(X).log_prob(counts)).all()
    assert report.conversion.num_inputs == 4
    assert 0 < report.network.coverage <= 1


@pytest.mark.parametrize("ending", ["html", "png"])
def test_the_page(ending: str, generator: torch.Generator, tmp_path: Path) -> None:
    network, X, y = rows(generator)
    _, report = actgp.uncertain(network, X, y, generator=generator, progress=False)
    path = tmp_path / f"report.{ending}"
    report.save(path)
    if ending == "png":
        assert path.read_bytes().startswith(b"\x89PNG")
    else:
        text = path.read_text(encoding="utf-8")
        assert "Sequential with uncertainty" in text
        assert text.count("data:image/png;base64,") == 1
        named = replace(report, conversion=replace(report.conversion, network="<Net>"))
        named.save(path)
        assert "&lt;Net&gt; with uncertainty" in path.read_text(encoding="utf-8")
    with pytest.raises(ValueError, match=r"a report is written as one of .html, .png, got '.*report.pdf'; choose one"):
        report.save(tmp_path / "report.pdf")


def test_a_page_without_matplotlib_is_refused(
    generator: torch.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, X, y = rows(generator)
    _, report = actgp.uncertain(network, X, y, generator=generator, progress=False)

    def missing(name: str) -> None:
        raise ImportError(f"No module named {name}")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ImportError, match=r"a page needs matplotlib, got none of it .*; pip install actgp\[cli\], or"):
        report.save(tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []
