"""A table's model: what it says of rows, in files of every kind, from Python and from its own file."""

import io
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import actgp
from actgp.distil import Classes, Normals
from actgp.tabular import Fitting, Settings, TableModel, fit_frame, predict_file, read_table
from actgp.tabular.reading import STDIN
from actgp.tabular.references import NOTHING, TREES
from actgp.tabular.scores import calibration_error, scores_of


def test_rows_are_divided_and_the_target_is_no_column(prices: Fitting) -> None:
    assert (len(prices.train), len(prices.test)) == (72, 18)
    used = set(prices.train.columns)
    assert used == {"size", "built", "town", "sold", "garden", "remark"}
    assert [score.model for score in prices.scores] == ["actgp", TREES, NOTHING]
    assert prices.scores[0].values["RMSE"] < 0.5 * prices.scores[2].values["RMSE"]


def test_every_class_is_trained_on_and_tested(labels: Fitting) -> None:
    assert set(labels.train_y) == set(labels.y) == {0.0, 1.0}
    assert abs(labels.train_y.mean() - labels.y.mean()) < 0.05  # in proportion


def test_the_columns_that_are_added_are_what_the_estimator_says(prices: Fitting, labels: Fitting) -> None:
    said, estimator = prices.model.predict(prices.test), prices.model.estimator
    mean, std = estimator.predict(prices.test, return_std=True)
    lower, upper = estimator.predict_interval(prices.test)
    for name, wanted in {"mean": mean, "std": std, "lower": lower, "upper": upper}.items():
        np.testing.assert_allclose(said[f"predicted_{name}"], wanted, rtol=1e-5)
    assert said["epistemic_share"].between(0, 1).all()
    of_labels = labels.model.predict(labels.test)
    np.testing.assert_allclose(
        of_labels[["probability_no", "probability_yes"]], labels.model.estimator.predict_proba(labels.test), rtol=1e-6
    )
    assert (of_labels["predicted"] == labels.model.estimator.predict(labels.test)).all()


def test_rows_far_away_are_unlike_the_others(prices: Fitting) -> None:
    far = prices.test.assign(size=1e4)
    assert prices.model.predict(far)["unlike_training"].all()
    assert not prices.model.predict(prices.train)["unlike_training"].any()  # each is one of them


def test_a_file_gives_the_same_model(prices: Fitting, labels: Fitting, tmp_path: Path) -> None:
    for fitting in (prices, labels):
        fitting.model.save(tmp_path / "model.actgp")
        back = actgp.load(tmp_path / "model.actgp")
        assert isinstance(back, TableModel)
        assert (back.target, back.task, back.words, back.page) == (
            fitting.model.target,
            fitting.model.task,
            fitting.model.words,
            fitting.model.page,
        )
        for fast in (False, True):
            pd.testing.assert_frame_equal(
                back.predict(fitting.test, fast=fast), fitting.model.predict(fitting.test, fast=fast)
            )
    with pytest.raises(ValueError, match="must be loaded without a backbone"):
        actgp.load(tmp_path / "model.actgp", backbone=torch.nn.Identity())


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather"])
def test_files_are_written_some_rows_at_a_time(
    fast: bool, suffix: str, prices: Fitting, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actgp.tabular.reading.ROWS", 40)
    rows: list[int] = []
    done = predict_file(prices.model, file, tmp_path / f"out{suffix}", fast=fast, report=rows.append)
    assert rows == [40, 80, 90]
    assert done.rows == 90
    read = {".csv": pd.read_csv, ".parquet": pd.read_parquet, ".feather": pd.read_feather}[suffix]
    out = read(tmp_path / f"out{suffix}")
    whole = read_table(file).frame
    wanted = prices.model.predict(whole, fast=fast)
    np.testing.assert_allclose(out[wanted.columns[:5]], wanted[wanted.columns[:5]], rtol=1e-6)
    assert out["town"].isna().equals(whole["town"].isna())
    assert out["sold"].iloc[0] == "01.01.2021"  # as it was
    again = predict_file(prices.model, tmp_path / f"out{suffix}", tmp_path / "again.csv", fast=fast)
    assert again.rows == 90
    assert pd.read_csv(tmp_path / "again.csv").columns.tolist() == out.columns.tolist()  # replaced, not doubled


def test_standard_output(prices: Fitting, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", out := io.TextIOWrapper(io.BytesIO()))
    predict_file(prices.model, file, STDIN)
    assert len(pd.read_csv(io.BytesIO(out.buffer.getvalue()))) == 90  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.drop(columns="size"), "must have the column 'size' that there was in fit"),
        (lambda frame: frame.rename(columns={"size": "sizes"}), "rename 'sizes', if that is it"),
        (lambda frame: frame.assign(size="big"), "column 'size' must hold what it held in fit, number, got text"),
        (lambda frame: frame.assign(sold="soon"), "column 'sold' must hold dates written as %d.%m.%Y, as in fit"),
    ],
)
def test_tables_with_other_columns_are_refused(change, message: str, prices: Fitting, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    change(prices.test.assign(sold="01.02.2021")).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(ValueError, match=message):
        predict_file(prices.model, tmp_path / "a.csv", tmp_path / "out.csv")


def test_what_a_model_has_not_seen_has_a_rule(prices: Fitting, tmp_path: Path) -> None:
    """New towns, numbers for towns, and further columns."""
    new = prices.test.assign(town=[7] * len(prices.test), further="x", sold="01.02.2021")
    new.to_csv(tmp_path / "a.csv", index=False)
    assert predict_file(prices.model, tmp_path / "a.csv", tmp_path / "out.csv").rows == len(new)
    other = prices.test.assign(town="Ulm", sold=pd.Timestamp("2021-02-01"))
    out = pd.read_csv(tmp_path / "out.csv")
    np.testing.assert_allclose(out["predicted_mean"], prices.model.predict(other)["predicted_mean"], rtol=1e-9)


def test_numbers_alone_are_found_by_name_too(prices: Fitting) -> None:
    """scikit-learn's own rule for them is the same columns in the same order."""
    numbers = prices.train[["size", "garden"]]
    estimator = actgp.DGPRegressor(num_layers=1, num_inducing=5, recipe=actgp.Recipe(network_steps=5, num_steps=1))
    model = replace(prices.model, estimator=estimator.fit(numbers, prices.train_y), dates=[])
    said = model.predict(numbers)
    pd.testing.assert_frame_equal(model.predict(numbers.assign(price=1.0)[["price", "garden", "size"]]), said)
    with pytest.raises(ValueError, match="must have the column 'garden' that there was in fit"):
        model.predict(numbers[["size"]])


def test_outputs_that_are_refused(prices: Fitting, file: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="OUTPUT must end in one of .csv, .parquet, .feather, .arrow, got 'out.txt'"):
        predict_file(prices.model, file, tmp_path / "out.txt")
    with pytest.raises(ValueError, match="OUTPUT must be another file than the one that is read"):
        predict_file(prices.model, file, file)


def test_types_that_change_are_refused_where_they_cannot_be_written(
    prices: Fitting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actgp.tabular.reading.ROWS", 10)
    table = prices.test.assign(sold="01.02.2021", further=[1] * 12 + ["one"] * 6)
    table.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(ValueError, match="columns must have the same types in all rows to be written as .parquet"):
        predict_file(prices.model, tmp_path / "a.csv", tmp_path / "out.parquet")
    assert predict_file(prices.model, tmp_path / "a.csv", tmp_path / "out.csv").rows == 18


def test_tables_that_are_refused(file: Path) -> None:
    reading = read_table(file)
    with pytest.raises(ValueError, match="--drop must name columns of the table, got \\['pric'\\]"):
        fit_frame(reading, Settings("price", drop=["pric"]))
    few = reading._replace(frame=reading.frame.head(9))
    with pytest.raises(
        ValueError, match="a column beside the target, and 10 rows where it is not missing, got 7 and 9"
    ):
        fit_frame(few, Settings("price"))


def test_scores_are_what_their_names_say() -> None:
    y = np.array([0.0, 1.0, 2.0, 10.0])
    mean = torch.tensor([0.0, 1.0, 2.0, 3.0], dtype=torch.float64)
    one = torch.ones_like(mean)
    normal = Normals(mean, 0 * one, one, one[None], mean[None], one[None])
    found = scores_of("it", normal, y).values
    assert found["RMSE"] == pytest.approx(3.5)
    assert found["coverage"] == 0.75
    assert found["width"] == pytest.approx(2 * 1.959964, rel=1e-5)
    assert found["NLPD"] == pytest.approx(0.5 * np.log(2 * np.pi) + 49 / 8)
    p = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.4, 0.6]])
    labels = scores_of("it", Classes(torch.from_numpy(p), torch.zeros(4, 2)), np.array([0.0, 1.0, 1.0, 1.0])).values
    assert labels["accuracy"] == 0.75
    assert labels["log-loss"] == pytest.approx(-np.log([0.9, 0.2, 0.7, 0.6]).mean())
    assert labels["ECE"] == pytest.approx((0.1 + 0.8 + 0.3 + 0.4) / 4)
    assert calibration_error(np.array([[1.0, 0.0]] * 4), np.array([0.0, 0.0, 0.0, 1.0])) == pytest.approx(0.25)
