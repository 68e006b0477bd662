"""Files that were damaged, and descriptions that were written by hand: a clear error, or the same model."""

import copy
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gpytorch.kernels as gpk
import pytest
import torch
from gpytorch.likelihoods import GaussianLikelihood, SoftmaxLikelihood
from hypothesis import given, settings
from hypothesis import strategies as st

import actgp
from actgp.persistence import archive, describe, rebuild

Edit = Callable[[dict[str, Any], dict[str, torch.Tensor]], object]


def saved() -> tuple[bytes, dict[str, torch.Tensor], str]:
    g = torch.Generator().manual_seed(0)
    model = actgp.deep_gp(2, num_layers=2, num_inducing=3, generator=g)
    with tempfile.TemporaryDirectory() as directory:
        model.save(Path(directory) / "model")
        return (Path(directory) / "model").read_bytes(), model.state_dict(), str(model)


DATA, STATE, TEXT = saved()
HEADER = 8 + int.from_bytes(DATA[:8], "little")
place = st.one_of(st.integers(0, HEADER - 1), st.integers(0, len(DATA) - 1))


def check(data: bytes) -> None:
    """Either our error, or the model that was saved."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "model"
        path.write_bytes(data)
        try:
            model = actgp.load(path)
        except ValueError as error:
            assert f"{str(path)!r} must" in str(error)
            assert ";" in str(error)
            return
    assert str(model) == TEXT
    state = model.state_dict()
    assert list(state) == list(STATE)
    assert all(torch.equal(state[name], tensor) for name, tensor in STATE.items())


def test_the_file_itself_loads() -> None:
    check(DATA)
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "model").write_bytes(DATA)
        actgp.load(Path(directory) / "model")


@settings(max_examples=150)
@given(st.lists(st.tuples(place, st.integers(1, 255)), min_size=1, max_size=3))
def test_changed_bytes(changes: list[tuple[int, int]]) -> None:
    damaged = bytearray(DATA)
    for position, change in changes:
        damaged[position] ^= change
    check(bytes(damaged))


@settings(max_examples=60)
@given(place)
def test_truncations(length: int) -> None:
    check(DATA[:length])


@settings(max_examples=80)
@given(place, st.binary(min_size=1, max_size=20), st.booleans())
def test_insertions(position: int, inserted: bytes, in_the_header: bool) -> None:
    """The second kind keeps the header's length true, so that the damage reaches further."""
    damaged = DATA[:position] + inserted + DATA[position:]
    if in_the_header and 8 <= position < HEADER:
        damaged = (HEADER - 8 + len(inserted)).to_bytes(8, "little") + damaged[8:]
    check(damaged)


@settings(max_examples=60)
@given(place, st.integers(1, 200))
def test_deleted_ranges(start: int, length: int) -> None:
    check(DATA[:start] + DATA[start + length :])


@settings(max_examples=60)
@given(place, place, st.integers(1, 64))
def test_swapped_regions(one: int, other: int, length: int) -> None:
    first, second = sorted((one, other))
    length = min(length, second - first, len(DATA) - second)
    a, b = DATA[first : first + length], DATA[second : second + length]
    check(DATA[:first] + b + DATA[first + length : second] + a + DATA[second + length :])


def with_header(header: dict[str, Any]) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + DATA[HEADER:]


@settings(max_examples=150)
@given(st.data())
def test_edited_headers(data: st.DataObject) -> None:
    header = json.loads(DATA[8:HEADER])
    values = st.one_of(
        st.none(), st.integers(), st.text(max_size=5), st.just([]), st.just({}), st.floats(allow_nan=False)
    )
    for _ in range(data.draw(st.integers(1, 2))):
        entry: Any = header
        key = data.draw(st.sampled_from(sorted(entry)))
        if isinstance(entry[key], dict) and entry[key] and data.draw(st.booleans()):
            entry, key = entry[key], data.draw(st.sampled_from(sorted(entry[key])))
        action = data.draw(st.sampled_from(["delete", "replace", "rename", "swap"]))
        if action == "replace":
            entry[key] = data.draw(values)
        elif action == "swap":
            other = data.draw(st.sampled_from(sorted(entry)))
            entry[key], entry[other] = entry[other], entry[key]
        else:
            value = entry.pop(key)
            if action == "rename":
                entry[data.draw(st.text(max_size=5))] = value
        if not header:
            break
    check(with_header(header))


def test_a_header_in_another_order_is_the_same_model() -> None:
    header = json.loads(DATA[8:HEADER])
    check(with_header(dict(sorted(header.items(), reverse=True))))


# Descriptions whose digest would be right.


def model() -> actgp.DeepGP:
    g = torch.Generator().manual_seed(0)
    first = actgp.GPLayer(actgp.MatchedKernel(2), actgp.ActivatedFeatures(2, 3, generator=g), 2)
    points = actgp.InducingPoints(torch.randn(4, 2, generator=g))
    second = actgp.GPLayer(gpk.ScaleKernel(gpk.RBFKernel(ard_num_dims=2)), points, 3)
    return actgp.DeepGP([first, second], SoftmaxLikelihood(num_features=3, num_classes=4))


def put(*path: Any) -> Edit:
    """Sets the entry at a path of keys to the last argument."""

    def edit(document: Any, _: object) -> None:
        for key in path[:-2]:
            document = document[key]
        document[path[-2]] = path[-1]

    return edit


def tensor(name: str, value: torch.Tensor) -> Edit:
    return lambda _, tensors: tensors.update({name: value})


K1, F1 = ("layers", 0, "kernel"), ("layers", 0, "features")
deep_kernel: dict[str, Any] = {"class": "RBFKernel", "ard_num_dims": None, "active_dims": None}
for _ in range(30):
    deep_kernel = {"class": "ScaleKernel", "active_dims": None, "base_kernel": deep_kernel}

MALFORMED: dict[str, tuple[Edit, str]] = {
    "no class": (lambda d, _: d.pop("class"), "the model must have class one of .*'DeepGP'.*, got None"),
    "unknown model": (put("class", "Net"), r"must have class one of \['DeepGP', .*\], got 'Net'"),
    "class of a module": (put("class", "os.system"), "must have class one of .*, got 'os.system'"),
    "other model": (put("class", "GPR"), r"must have no entry layers, got"),
    "unknown kernel": (put(*K1, "class", "Kernel"), "layers.0.kernel must have class one of .*, got 'Kernel'"),
    "unknown activation": (put(*F1, "activation", {"class": "exec"}), "features.activation must have class one of"),
    "unknown features": (put(*F1, "class", "Features"), "layers.0.features must have class one of .*, got 'Features'"),
    "unknown likelihood": (put("likelihood", "class", "X"), "likelihood must have class one of .*, got 'X'"),
    "unknown mean": (put("layers", 0, "prior_mean", "linear"), "prior_mean one of .*, got 'linear'"),
    "class is a list": (
        put(*K1, "class", ["ArcCosine"]),
        r"kernel must have class one of .*'ArcCosine'.*, got \['ArcCosine'\]",
    ),
    "layers a number": (put("layers", 3), "layers of type list, of GPLayer, got 3"),
    "a layer a number": (put("layers", 0, 3), "layers must have 0 of type GPLayer, got 3"),
    "no layers": (put("layers", []), "can be built, got one that cannot .layers must be one or more GPLayers"),
    "more layers": (
        lambda d, _: d["layers"].append(d["layers"][1]),
        "layers.2.kernel.base_kernel must have a tensor raw_lengthscale of shape .*, got none",
    ),
    "fewer layers": (lambda d, _: d["layers"].pop(), "cannot .num_outputs must be the softmax .* of features 3, got 2"),
    "more tensors": (lambda _, t: t.update(stray=torch.zeros(1)), "must have no tensor stray, got one"),
    "no features": (
        lambda d, _: d["layers"][0].pop("features"),
        "the description of layers.0 must have an entry features, got none; write it with the model's save",
    ),
    "no inner kernel": (
        lambda d, _: d["layers"][1]["kernel"].pop("base_kernel"),
        "layers.1.kernel must have an entry base_kernel, got none",
    ),
    "no likelihood": (lambda d, _: d.pop("likelihood"), "the model must have an entry likelihood, got none"),
    "levels": (put(*F1, "num_levels", 10**12), "num_levels from 1 to 1000, got 1000000000000"),
    "no levels": (put(*K1, "num_levels", 0), "layers.0.kernel must have num_levels from 1 to 1000, got 0"),
    "levels as text": (put(*K1, "num_levels", "9"), "num_levels of type int, got '9'"),
    "levels as truth": (put(*K1, "num_levels", True), "num_levels of type int, got True"),
    "classes": (put("likelihood", "num_classes", 10**12), "num_classes from 1 to 1000000, got 1000000000000"),
    "other classes": (put("likelihood", "num_classes", 9), r"mixing_weights of shape \[9, 3\], got \[4, 3\]"),
    "ard": (
        put("layers", 1, "kernel", "base_kernel", "ard_num_dims", 10**12),
        r"layers.1.kernel.base_kernel must have a tensor raw_lengthscale of shape \[1, 1000000000000\], got \[1, 2\]",
    ),
    "nested kernels": (put("layers", 1, "kernel", deep_kernel), "must have at most 18 names in its place, got more"),
    "mean": (tensor("layers.0.q.raw_mean", torch.zeros(3)), r"q.raw_mean of shape \[3, 'any'\], got \[3\]"),
    "narrow mean": (tensor("layers.0.q.raw_mean", torch.zeros(4, 2)), r"q.raw_mean of shape .*, got \[4, 2\]"),
    "scales": (tensor("layers.0.q.raw_scale_tril", torch.zeros(2, 3, 1)), r"shape \[2, 3, 3\], got \[2, 3, 1\]"),
    "weights": (tensor("layers.0.features.weights", torch.zeros(0, 10**12)), "num_inducing must be at least 1, got 0"),
    "no weights": (lambda _, t: t.pop("layers.0.features.weights"), "a tensor weights of shape .*, got none"),
    "lengthscale": (tensor("layers.0.kernel.raw_lengthscale", torch.zeros(1, 3)), "same number of inputs, got 3 and 2"),
    "variance": (tensor("layers.0.kernel.raw_variance", torch.zeros(2)), r"raw_variance of shape \[\], got \[2\]"),
    "whole numbers": (
        tensor("layers.0.kernel.raw_variance", torch.tensor(1)),
        "dtype like torch.float32, got torch.int",
    ),
    "extra tensor": (tensor("more", torch.zeros(2)), "no tensor more, got one"),
    "a lost tensor": (
        lambda _, t: t.pop("layers.0.kernel.raw_variance"),
        "a tensor layers.0.kernel.raw_variance, got n",
    ),
    "beta": (
        tensor("layers.0.features.activation.fixed_beta", torch.tensor(torch.nan)),
        "layers.0.features.activation must have beta as it was built, nan, got 1.0",
    ),
    "betas": (tensor("layers.0.features.activation.fixed_beta", torch.ones(2)), r"fixed_beta of shape \[\], got \[2\]"),
    "frozen": (put("frozen", ["nothing"]), "names of parameters under frozen and tied, got 'nothing'"),
    "frozen lists": (put("frozen", [["x"]]), r"names of parameters under frozen and tied, got \['x'\]"),
    "no frozen": (lambda d, _: d.pop("frozen"), r"frozen of type list and tied of type dict, got \(None"),
    "tied": (
        put("tied", {"layers.0.q.raw_mean": "layers.1.q.raw_mean"}),
        r"layers.0.q.raw_mean of the shape of layers.1.q.raw_mean, to which it is tied, got \[3, 2\]",
    ),
    "tied to lists": (put("tied", {"layers.0.q.raw_mean": []}), r"under frozen and tied, got \[\]"),
    "constraints": (put(*K1, "constraints", {}), r"constraints of \['raw_.*'\], got {}"),
    "constraint": (
        put(*K1, "constraints", "raw_variance_constraint", 1),
        "raw_variance_constraint must have a description, got 1",
    ),
    "constraint class": (
        put(*K1, "constraints", "raw_variance_constraint", "class", "Free"),
        "kernel.raw_variance_constraint must have class one of .*, got 'Free'",
    ),
    "transform": (
        put(*K1, "constraints", "raw_variance_constraint", "transform", "eval"),
        "transform one of .*, got 'eval'",
    ),
    "bounds": (
        lambda _, t: t.pop("layers.0.kernel.raw_variance_constraint.lower_bound"),
        "raw_variance_constraint must have tensors lower_bound and upper_bound, got none",
    ),
    "no data": (
        lambda d, _: (d.clear(), d.update({"class": "GPR", "frozen": [], "tied": {}})),
        "the model must have a tensor X of shape .*, got none",
    ),
    "no such option": (put(*K1, "nu", 0.5), "layers.0.kernel must have no entry nu, got 0.5"),
    "a lost option": (
        lambda d, _: d["layers"][0]["kernel"].pop("num_levels"),
        "layers.0.kernel must have num_levels as it was built, 20, got None",
    ),
    "a tensor as an option": (put(*K1, "num_levels", {"tensor": "x"}), "num_levels of type int, got {'tensor': 'x'}"),
    "a layer as a kernel": (put(*K1, "class", "GPLayer"), "kernel must have class one of .*, got 'GPLayer'"),
    "backbone as truth": (put("backbone", True), "backbone of type dict or None, got True"),
    "backbone": (put("backbone", {"parts": None}), "must be loaded with a module of the same structure, got None"),
}


@pytest.mark.parametrize(("edit", "message"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_descriptions(edit: Edit, message: str, tmp_path: Path) -> None:
    document, tensors = describe(model())
    document, tensors = copy.deepcopy(document), dict(tensors)
    rebuild(document, tensors)
    edit(document, tensors)
    archive.write(tmp_path / "model", "model", document, tensors)
    with pytest.raises(ValueError, match=message):
        actgp.load(tmp_path / "model")


def test_malformed_kernels_and_likelihoods_of_other_classes() -> None:
    points = actgp.InducingPoints(torch.zeros(2, 2))
    for kernel, key, value in (
        (actgp.ArcCosine(2), "order", 7),
        (actgp.ZonalMatern(2), "nu", 9.5),
        (gpk.MaternKernel(), "nu", 9.5),
        (actgp.SpectralKernel(2, [1.0]), "energies", ["x"]),
        (actgp.SpectralKernel(2, [1.0]), "energies", [-1.0]),
        (gpk.RBFKernel() + gpk.RBFKernel(), "kernels", [1]),
        (gpk.PolynomialKernel(2), "power", 0.5),
    ):
        document, tensors = describe(actgp.DeepGP([actgp.GPLayer(kernel, points)], GaussianLikelihood()))
        document["layers"][0]["kernel"][key] = value
        with pytest.raises(ValueError, match="; write it with the model's save"):
            rebuild(document, tensors)


entries = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 30),
    st.integers(1_001, 10**20),
    st.floats(allow_nan=False),
    st.text(max_size=4),
)


@settings(max_examples=150)
@given(st.data())
def test_descriptions_with_random_entries_never_crash(data: st.DataObject) -> None:
    document, tensors = copy.deepcopy(describe(model()))
    entry: Any = document
    while True:
        keys = sorted(entry) if isinstance(entry, dict) else list(range(len(entry)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(entry[key], dict | list) or not entry[key] or data.draw(st.integers(0, 3)) == 0:
            break
        entry = entry[key]
    entry[key] = data.draw(
        st.one_of(entries, st.lists(entries, max_size=2), st.dictionaries(st.text(max_size=2), entries))
    )
    try:
        back = rebuild(document, tensors)
    except ValueError as error:
        assert ";" in str(error)
    else:
        assert isinstance(back, actgp.DeepGP)
