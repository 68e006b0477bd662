"""The figures: their numbers show what the paper says they show, and they are written as PNG and CSV."""

import csv
from collections.abc import Iterator
from math import pi
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import sph_harm_y

from actgp import num_harmonics
from actgp.demo.data import WAVES_EXTENT, waves
from actgp.training import Recipe
from actgp_experiments import plots, synthetic
from actgp_experiments.figures import (
    FIGURES,
    exact_gp,
    harmonics,
    matern_vs_arccosine,
    projection,
    relu_coefficients,
    spectra,
    truncated_activations,
    truncation,
    write_figures,
)

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
COLUMNS = {
    "projection": ["activation", "curve", "x1", "x2", "value"],
    "truncated_activations": ["activation", "dimension", "num_levels", "t", "exact", "truncated"],
    "truncation": ["quantity", "activation", "num_levels", "x", "value"],
    "matern_vs_arccosine": ["series", "elbo", "x", "mean", "unexplained", "posterior"],
    "harmonics": ["theta", "phi", *(f"n{n}_m{m}" for n in range(4) for m in range(-n, n + 1))],
    "relu_coefficients": ["dimension", "level", "coefficient"],
    "spectra": ["shape", "kind", "dimension", "level", "eigenvalue"],
    "exact_gp": ["series", "log_evidence", "x", "mean", "sd"],
}


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """The matrices are so small that threads would only wait for each other, and for other tests."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def exact() -> dict[str, exact_gp.Fit]:
    return exact_gp.compute()


@pytest.fixture(scope="module")
def sparse() -> dict[str, matern_vs_arccosine.Fit]:
    return matern_vs_arccosine.compute()


@pytest.fixture(scope="module")
def truncations() -> truncation.Truncation:
    return truncation.compute()


def near_data(x: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.abs(x) <= WAVES_EXTENT


# projection


def test_projection_of_relu_is_relu_on_the_data_line() -> None:
    (x1, x2), values = projection.compute()["ReLU"].line.points.T, projection.compute()["ReLU"].line.values
    w1, w2 = projection.DIRECTION
    assert np.all(x2 == 1)
    np.testing.assert_allclose(values, np.maximum(0, w1 * x1 + w2), atol=1e-12)


@pytest.mark.parametrize("name", ["ReLU", "softplus"])
def test_projection_maps_the_upper_half_of_the_circle_to_the_line(name: str) -> None:
    circle, line = projection.compute()[name]
    angle = np.arctan2(circle.points[:, 1], circle.points[:, 0])
    seen = np.abs(np.cos(angle)) <= projection.EXTENT * np.sin(angle)  # what lies below the drawn part of the line
    assert seen.sum() > 20
    # The ray through [cos θ, sin θ] meets the line at cot θ, at a distance of 1/sin θ.
    on_line = np.interp(1 / np.tan(angle[seen]), line.points[:, 0], line.values)
    np.testing.assert_allclose(circle.values[seen] / np.sin(angle[seen]), on_line, atol=2e-3)


def test_projection_of_softplus_resembles_softplus_on_the_data_line() -> None:
    points, values = projection.compute()["softplus"].line
    w1, w2 = projection.DIRECTION
    assert np.abs(values - np.log1p(np.exp(3 * (w1 * points[:, 0] + w2))) / 3).max() < 0.35
    assert np.all(np.diff(values, 2) > 0)  # convex, like softplus


# truncated_activations


def sup_errors() -> dict[tuple[str, int, int], float]:
    return {
        result[:3]: float(np.abs(result.exact - result.truncated).max()) for result in truncated_activations.compute()
    }


def mean_square_error(result: truncated_activations.Truncated) -> float:
    """On the sphere: with the weight (1−t²)^((d−3)/2), in which the series is the best approximation."""
    weight = (1 - result.t**2) ** ((result.dimension - 3) / 2)
    return float(np.average((result.exact - result.truncated) ** 2, weights=weight))


def test_truncation_error_falls_with_the_number_of_levels_in_every_dimension() -> None:
    errors = {result[:3]: mean_square_error(result) for result in truncated_activations.compute()}
    for name in ("ReLU", "softplus"):
        for d in truncated_activations.DIMENSIONS:
            assert errors[name, d, 5] > errors[name, d, 10] > errors[name, d, 20]


def test_few_levels_suffice_in_low_dimension_and_for_softplus_in_all() -> None:
    errors = sup_errors()
    assert errors["ReLU", 3, 5] < 0.06
    assert errors["ReLU", 3, 5] > errors["ReLU", 3, 10] > errors["ReLU", 3, 20]
    for d in truncated_activations.DIMENSIONS:
        assert errors["softplus", d, 5] < 0.02
        assert errors["softplus", d, 20] < 1e-5


def test_relu_is_hard_in_high_dimension() -> None:
    errors = sup_errors()
    assert [errors["ReLU", d, 10] for d in (3, 5, 9, 17)] == sorted(errors["ReLU", d, 10] for d in (3, 5, 9, 17))
    assert errors["ReLU", 17, 10] > 1
    assert errors["ReLU", 17, 10] > 100 * errors["softplus", 17, 10]


# truncation


def test_norm_of_relu_grows_without_bound(truncations: truncation.Truncation) -> None:
    squares = truncations.norms["ReLU"] ** 2
    # c_n = N_n / 2d = 1/2 for d = 2 at even levels: every second level adds as much as the one before.
    np.testing.assert_allclose(np.diff(squares)[1::2], 0.5, rtol=1e-10)
    np.testing.assert_allclose(np.diff(squares)[2::2], 0.0, atol=1e-12)


def test_norm_of_softplus_converges(truncations: truncation.Truncation) -> None:
    norms = truncations.norms["softplus"]
    assert np.all(np.diff(norms) >= 0)
    assert norms[4] / norms[-1] > 0.995
    assert norms[14] / norms[-1] > 1 - 1e-6


def test_variance_grows_with_the_truncation_for_relu_only(truncations: truncation.Truncation) -> None:
    variances = truncations.variances
    assert np.all(variances["ReLU", 10] < variances["ReLU", 15])
    assert np.all(variances["ReLU", 15] < variances["ReLU", 25])
    assert variances["ReLU", 25].mean() > 10 * variances["ReLU", 10].mean()
    assert variances["softplus", 25].mean() == pytest.approx(variances["softplus", 10].mean(), rel=0.15)
    assert variances["softplus", 25].mean() == pytest.approx(variances["softplus", 15].mean(), rel=1e-3)
    assert variances["softplus", 25].mean() < variances["ReLU", 10].mean()


# matern_vs_arccosine, exact_gp


def test_matern_has_the_lower_bound_and_the_larger_unexplained_variance(
    sparse: dict[str, matern_vs_arccosine.Fit],
) -> None:
    matern, arc_cosine = sparse["Matérn-5/2"], sparse["arc-cosine"]
    assert matern.elbo < arc_cosine.elbo - 20
    assert np.all(matern.unexplained > 10 * arc_cosine.unexplained)
    assert np.all(arc_cosine.unexplained > -1e-9)
    inside = near_data(matern.x)
    assert np.all(matern.unexplained[inside] > matern.posterior[inside])  # the mismatch dominates the variance


def test_sparse_gp_is_near_the_exact_one_with_arc_cosine_and_not_with_matern(
    sparse: dict[str, matern_vs_arccosine.Fit], exact: dict[str, exact_gp.Fit]
) -> None:
    inside = near_data(exact["arc-cosine"].x)

    def deviation(name: str) -> float:
        return float(
            (sparse[name].unexplained + sparse[name].posterior)[inside].mean() / (exact[name].sd[inside] ** 2).mean()
        )

    assert np.array_equal(exact["arc-cosine"].x, sparse["arc-cosine"].x)
    assert deviation("arc-cosine") < 1.5
    assert deviation("Matérn-5/2") > 10
    np.testing.assert_allclose(sparse["arc-cosine"].mean[inside], exact["arc-cosine"].mean[inside], atol=0.1)


def test_bounds_are_below_the_exact_log_evidence(
    sparse: dict[str, matern_vs_arccosine.Fit], exact: dict[str, exact_gp.Fit]
) -> None:
    for name, fit in exact.items():
        assert sparse[name].elbo < fit.log_evidence


def test_terms_of_the_variance_sum_to_what_the_model_predicts(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {}
    original = matern_vs_arccosine.fit

    def two_steps(model: object, **options: object) -> object:
        seen["model"] = model
        return original(model, recipe=Recipe(num_steps=2), progress=False)

    monkeypatch.setattr(matern_vs_arccosine, "fit", two_steps)
    result = matern_vs_arccosine.compute()["arc-cosine"]
    prediction = seen["model"].predict(synthetic.grid(matern_vs_arccosine.EXTENT))
    np.testing.assert_allclose(result.unexplained + result.posterior, prediction.latent_variance.numpy(), rtol=1e-6)
    np.testing.assert_allclose(result.mean, prediction.latent_mean.numpy(), rtol=1e-6, atol=1e-9)


def test_exact_gps_fit_with_both_kernels(exact: dict[str, exact_gp.Fit]) -> None:
    x = exact["arc-cosine"].x
    inside = near_data(x)
    truth = np.sin(3 * x) + 0.3 * x
    for fit in exact.values():
        assert np.abs(fit.mean - truth)[inside].max() < 0.2
        assert np.mean(np.abs(fit.mean - truth)[inside] < 2 * fit.sd[inside]) > 0.9
        assert fit.sd[inside].max() < 0.15
        assert fit.sd[[0, -1]].min() > 3 * fit.sd[inside].mean()  # wider where there are no data
    log_evidences = [fit.log_evidence for fit in exact.values()]
    assert abs(log_evidences[0] - log_evidences[1]) < 5


def test_synthetic_data_are_the_same_every_time_and_leave_the_global_generator_alone() -> None:
    state = torch.get_rng_state()
    first, second = waves(), waves()
    assert torch.equal(first.X, second.X)
    assert torch.equal(first.y, second.y)
    assert torch.equal(state, torch.get_rng_state())
    assert first.X.abs().max() <= WAVES_EXTENT


# harmonics


def test_harmonics_are_orthonormal_on_the_sphere() -> None:
    # Gauss–Legendre in cos θ and equal steps in ϕ: exact for polynomials of degree below 20.
    t, weights = np.polynomial.legendre.leggauss(10)
    phi = 2 * pi * np.arange(20) / 20
    theta = np.arccos(np.repeat(t, 20))
    phi, weights = np.tile(phi, 10), np.repeat(weights, 20) / 40  # of mass one
    directions = np.stack([np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)], axis=-1)
    values = harmonics.customary_harmonics(torch.from_numpy(directions)).numpy()
    np.testing.assert_allclose(values.T @ (weights[:, None] * values), np.eye(16), atol=1e-12)


def test_harmonics_are_the_customary_ones_on_the_grid() -> None:
    result = harmonics.compute()
    for (n, m), values in result.values.items():
        Y = sph_harm_y(n, abs(m), result.theta, result.phi) * np.sqrt(4 * pi) * (-1) ** m
        expected = Y.real if m == 0 else np.sqrt(2) * (Y.real if m > 0 else Y.imag)
        np.testing.assert_allclose(values, expected, atol=1e-10, err_msg=f"n = {n}, m = {m}")


def test_harmonics_obey_the_addition_theorem_at_each_level() -> None:
    result = harmonics.compute()
    for n in range(4):
        total = sum(values**2 for (level, _), values in result.values.items() if level == n)
        np.testing.assert_allclose(total, num_harmonics(n, 3), atol=1e-10)


# relu_coefficients, spectra


def test_relu_coefficients_of_odd_degree_are_exactly_zero_and_the_others_decay() -> None:
    for sigma in relu_coefficients.compute().values():
        assert np.all(sigma[3::2] == 0)
        assert np.all(np.diff(np.abs(sigma[[0, 1, *range(2, 21, 2)]])) < 0)
        assert np.all(np.sign(sigma[2::2]) == [1, -1] * 5)  # alternate in sign, all there


def test_relu_coefficients_fall_faster_in_higher_dimension() -> None:
    tails = [abs(sigma[20] / sigma[0]) for sigma in relu_coefficients.compute().values()]
    assert tails == sorted(tails, reverse=True)
    assert tails[0] > 1e6 * tails[-1]


def test_spectra_of_activations_miss_the_levels_of_arc_cosine_and_not_those_of_matern() -> None:
    values = spectra.compute()
    missing = {name: np.flatnonzero(v == 0).tolist() for name, v in values.items()}
    odd = [3, 5, 7, 9, 11, 13, 15]
    assert missing == {"arc-cosine": odd, "Matérn-5/2": [], "ReLU": odd, "softplus": odd}
    assert np.all(values["Matérn-5/2"] > 0)
    # Softplus decays faster than the square root of the kernel's spectrum, ReLU just like it.
    even = np.arange(2, 16, 2)
    ratio = {name: np.abs(values[name][even]) / np.sqrt(values["arc-cosine"][even]) for name in ("ReLU", "softplus")}
    np.testing.assert_allclose(ratio["ReLU"], ratio["ReLU"][0], rtol=1e-10)
    assert np.all(ratio["softplus"][1:] < ratio["softplus"][:-1] / 2)


# Writing


def test_write_figures_writes_every_picture_with_its_numbers(tmp_path: Path) -> None:
    told: list[str] = []
    before = dict(mpl.rcParams)
    paths = write_figures(tmp_path / "new", progress=told.append)
    assert told == list(FIGURES) == list(COLUMNS) == [path.stem for path in paths]
    assert dict(mpl.rcParams) == before  # the style is local
    for path in paths:
        assert path.parent == tmp_path / "new"
        assert path.read_bytes().startswith(PNG_SIGNATURE)
        with path.with_suffix(".csv").open(encoding="utf-8") as file:
            header, *rows = csv.reader(file)
        assert header == COLUMNS[path.stem]
        assert len(rows) >= 60
        assert all(len(row) == len(header) for row in rows)
    assert len(list((tmp_path / "new").iterdir())) == 2 * len(FIGURES)


def test_write_figures_writes_the_named_ones_with_the_numbers_computed(tmp_path: Path) -> None:
    (path,) = write_figures(tmp_path, ["relu_coefficients"])
    assert path == tmp_path / "relu_coefficients.png"
    with path.with_suffix(".csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    computed = relu_coefficients.compute()
    assert len(rows) == sum(map(len, computed.values()))
    for row in rows:
        assert float(row["coefficient"]) == pytest.approx(computed[int(row["dimension"])][int(row["level"])], rel=1e-9)


def test_write_figures_refuses_a_name_before_it_writes(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"figure must be one of .*'projection'.*, got 'banana'; choose one"):
        write_figures(tmp_path / "new", ["relu_coefficients", "banana"])
    assert not (tmp_path / "new").exists()


def test_save_refuses_what_is_not_png(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a figure is written as \.png, got picture\.pdf; end the name in \.png"):
        plots.save(plots.figure(1, 1), tmp_path / "picture.pdf", ["x"], [])


@pytest.mark.parametrize("width", [4.0, 7.4])
def test_caption_stays_inside_the_figure_and_below_the_panels(width: float) -> None:
    with plots.style():
        figure = plots.figure(width, 3.0)
        axes = figure.subplots()
        axes.set_xlabel("x")
        plots.caption(figure, "A caption of many words, which has to be broken into several lines. " * 4)
        figure.draw_without_rendering()
        (text,) = [child for child in figure.texts if "many words" in child.get_text()]
        box = text.get_window_extent()
        panel = axes.get_tightbbox()
    assert panel is not None
    assert "\n" in text.get_text()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.x1
    assert box.y0 >= 0
    assert box.y1 <= panel.y0


def test_shades_are_distinct() -> None:
    for count in (1, 3, 5):
        assert len(set(plots.shades(count))) == count


def test_number_has_a_minus_sign() -> None:
    assert plots.number(-35.41) == "−35.4"
    assert plots.number(21.04) == "21.0"
