"""Backbones: files are loaded with what `hybrid` or `convert` was given, as well as with what they made of it."""

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from gpytorch.likelihoods import GaussianLikelihood
from torch import Tensor, nn

import actgp
from actgp.persistence import archive, describe

X = torch.rand(40, 1, 6, 6, generator=torch.Generator().manual_seed(0))

pytestmark = pytest.mark.usefixtures("small_conversions")


class Convolutions(nn.Module):
    """A backbone with a class of its own, statistics and a function between its modules."""

    def __init__(self, width: int = 3) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(1, width, 3)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.norm(self.convolution(x))).flatten(1)


class Network(nn.Module):
    """Convolutions with a head."""

    def __init__(self, width: int = 3, bend: Callable[[Tensor], Tensor] = torch.relu) -> None:
        super().__init__()
        self.front = Convolutions(width)
        self.bend = bend
        self.head = nn.Sequential(nn.Linear(16 * width, 8), nn.Dropout(0.5), nn.Softplus(), nn.Linear(8, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.bend(self.front(x) - 0.1))


def sequence() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten())


def nested() -> nn.Sequential:
    front = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Sequential(nn.ELU(), nn.Flatten()))
    return nn.Sequential(front, nn.Sequential(nn.Linear(48, 8), nn.ReLU()), nn.Linear(8, 2))


def flat() -> nn.Sequential:
    """Its front has no tensors."""
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.ReLU(), nn.Linear(8, 2))


def hybrid(make: Callable[[], nn.Module], reduce_to: int | None, trained: bool = True) -> actgp.DeepGP:
    g = torch.Generator().manual_seed(1)
    given = make().requires_grad_(trained)
    return actgp.hybrid(given, X, 2, num_inducing=8, reduce_to=reduce_to, generator=g)


def converted(make: Callable[[], nn.Module]) -> actgp.DeepGP:
    return actgp.convert_weights(make(), X, num_inducing=12, tolerance=float("inf"))[0]


def assert_same(model: actgp.DeepGP, loaded: actgp.DeepGP, rows: Tensor = X) -> None:
    assert not loaded.training
    ours, theirs = model.predict(rows), loaded.predict(rows)
    assert torch.equal(ours.component_means, theirs.component_means)
    assert torch.equal(ours.component_variances, theirs.component_variances)
    assert {name: p.requires_grad for name, p in model.named_parameters()} == {
        name: p.requires_grad for name, p in loaded.named_parameters()
    }


@pytest.mark.parametrize("trained", [True, False])
@pytest.mark.parametrize("reduce_to", [None, 4])
@pytest.mark.parametrize("make", [sequence, Convolutions, nn.Flatten])
def test_the_module_that_hybrid_was_given(
    make: Callable[[], nn.Module], reduce_to: int | None, trained: bool, tmp_path: Path
) -> None:
    model = hybrid(make, reduce_to, trained)
    model.save(tmp_path / "model")
    own = make()
    loaded = actgp.load(tmp_path / "model", backbone=own)
    assert loaded.backbone[0] is own  # part of the model, as of hybrid's
    assert_same(model, loaded)
    loaded.save(tmp_path / "again")
    assert_same(model, actgp.load(tmp_path / "again", backbone=make()))
    assert_same(model, actgp.load(tmp_path / "model", backbone=hybrid(make, reduce_to).backbone))


def test_a_reading_of_the_file_does_not_draw_from_the_global_generator(tmp_path: Path) -> None:
    hybrid(sequence, 4).save(tmp_path / "model")
    own, before = sequence(), torch.get_rng_state()
    actgp.load(tmp_path / "model", backbone=own)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("make", [Network, nested, flat])
def test_the_network_that_convert_was_given(make: Callable[[], nn.Module], tmp_path: Path) -> None:
    model = converted(make)
    assert model.backbone is not None
    model.save(tmp_path / "model")
    own = make()
    before = copy.deepcopy(own.state_dict())
    loaded = actgp.load(tmp_path / "model", backbone=own)
    assert own.training
    assert all(torch.equal(before[name], tensor) for name, tensor in own.state_dict().items())
    assert_same(model, loaded)
    loaded.save(tmp_path / "again")
    assert_same(model, actgp.load(tmp_path / "again", backbone=make()))
    assert_same(model, actgp.load(tmp_path / "model", backbone=converted(make).backbone))


def test_copies_of_another_precision_that_were_trained(tmp_path: Path) -> None:
    labels = torch.arange(len(X)).double() % 2
    both = torch.stack([labels, labels], 1)
    for built, y, own in (
        (hybrid(Convolutions, None), labels, Convolutions()),
        (converted(Network), both, Network()),
    ):
        model = copy.deepcopy(built).double()
        recipe = actgp.Recipe(network_steps=2, num_steps=1, validation=0.0)
        actgp.fit(model, X.double(), y, recipe, generator=torch.Generator().manual_seed(0), progress=False)
        model.save(tmp_path / "model")
        assert_same(model, actgp.load(tmp_path / "model", backbone=own), X.double())


def test_a_linear_map_that_was_put_there_by_hand(tmp_path: Path) -> None:
    layer = actgp.GPLayer(actgp.ArcCosine(3), actgp.ActivatedFeatures(3, 4))
    behind = nn.Sequential(nn.Flatten(), nn.Linear(36, 3, bias=False))
    model = actgp.DeepGP([layer], GaussianLikelihood(), behind)
    model.save(tmp_path / "model")
    assert_same(model, actgp.load(tmp_path / "model", backbone=nn.Flatten()))


def test_a_module_whose_tensors_fit_but_not_its_parts_is_refused(tmp_path: Path) -> None:
    def bent(activation: nn.Module) -> nn.Sequential:
        return nn.Sequential(nn.Flatten(), nn.Sequential(nn.Linear(36, 3), activation))

    layer = actgp.GPLayer(actgp.ArcCosine(3), actgp.ActivatedFeatures(3, 4))
    by_hand = actgp.DeepGP([layer], GaussianLikelihood(), bent(nn.ReLU()))
    behind = actgp.hybrid(bent(nn.ReLU()), X, 2, num_inducing=8)
    for model in (by_hand, behind):
        model.save(tmp_path / "model")
        assert_same(model, actgp.load(tmp_path / "model", backbone=bent(nn.ReLU())))
        text = (
            r"parts of the one that was saved, .*torch.ReLU.*, got .*torch.Tanh.*; its tensors would fit, but it is an"
        )
        with pytest.raises(ValueError, match=text):
            actgp.load(tmp_path / "model", backbone=bent(nn.Tanh()))


class Linear(nn.Linear):
    """Of the same name and tensors as torch's, but another function."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input).tanh()


def test_other_classes_of_the_same_tensors_are_not_mistaken(tmp_path: Path) -> None:
    layer = actgp.GPLayer(actgp.ArcCosine(3), actgp.ActivatedFeatures(3, 4))
    actgp.DeepGP([layer], GaussianLikelihood(), nn.Sequential(nn.Flatten(), Linear(36, 3))).save(tmp_path / "model")
    with pytest.raises(ValueError, match="with a tensor backbone.1.bias, got none; build it as it was before saving"):
        actgp.load(tmp_path / "model", backbone=nn.Flatten())
    converted(Network).save(tmp_path / "model")
    with pytest.raises(ValueError, match="the structure of the one that was saved, with .*, got .*; build it as"):
        actgp.load(tmp_path / "model", backbone=Network(bend=torch.tanh))
    converted(nested).save(tmp_path / "model")
    other = nested()
    other[0][2][0] = nn.ReLU()
    with pytest.raises(ValueError, match="the structure of the one that was saved, with .*, got .*; build it as"):
        actgp.load(tmp_path / "model", backbone=other)


def test_a_mismatch_names_what_the_file_has_and_what_the_module_has(tmp_path: Path) -> None:
    hybrid(Convolutions, None).save(tmp_path / "hybrid")
    converted(Network).save(tmp_path / "converted")
    converted(nested).save(tmp_path / "nested")
    for name, wrong, message in (
        ("hybrid", Convolutions(2), r"backbone.0.convolution.bias of shape \[3\], got \[2\]"),
        ("hybrid", nn.Flatten(), "a tensor backbone.0.convolution.bias, got none"),
        ("converted", Network(2), r"backbone.front.convolution.bias of shape \[3\], got \[2\]"),
        ("converted", Convolutions(), "no tensor backbone.convolution.bias, got one"),
        ("nested", nn.Sequential(*nested()[0][:2], nn.ELU(), nn.Linear(2, 2)), "no tensor backbone.3.bias, got one"),
    ):
        before = copy.deepcopy(wrong.state_dict())
        expected = f"with {message}; build it as it was before saving: .* given to hybrid, or .* given to convert"
        with pytest.raises(ValueError, match=expected):
            actgp.load(tmp_path / name, backbone=wrong)
        assert wrong.training
        assert all(torch.equal(before[key], tensor) for key, tensor in wrong.state_dict().items())


def test_a_network_without_a_backbone_is_not_needed(tmp_path: Path) -> None:
    network = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
    actgp.convert_weights(network, tolerance=float("inf"))[0].save(tmp_path / "model")
    with pytest.raises(ValueError, match="without a backbone must be loaded without one, got Sequential; leave backbo"):
        actgp.load(tmp_path / "model", backbone=network)


def test_files_that_do_not_name_parts_are_loaded_with_the_backbone(tmp_path: Path) -> None:
    model = hybrid(sequence, None)
    document, tensors = describe(model)
    document["backbone"]["parts"] = None
    archive.write(tmp_path / "model", "model", document, tensors)
    assert_same(model, actgp.load(tmp_path / "model", backbone=hybrid(sequence, None).backbone))
    with pytest.raises(ValueError, match=r"with a tensor backbone.0.0.bias, got none; build it as"):
        actgp.load(tmp_path / "model", backbone=sequence())


DAMAGED = {
    "no list": (
        "torch.Linear",
        "must have a list of names as parts, got 'torch.Linear'; write it with the model's save",
    ),
    "no names": ([1, 2], r"must have a list of names as parts, got \[1, 2\]; write it with the model's save"),
    "another scaling": (["", "torch.Linear"], "with a tensor backbone.0.0.bias, got none; build it as it was"),
    "another part": (["", "os.system"], "with a tensor backbone.0.0.bias, got none; build it as it was"),
    "too many": (["", "", ""], "with a tensor backbone.0.0.bias, got none; build it as it was"),
}


@pytest.mark.parametrize(("parts", "message"), DAMAGED.values(), ids=DAMAGED)
def test_damaged_parts_are_refused(parts: object, message: str, tmp_path: Path) -> None:
    document, tensors = describe(hybrid(sequence, None))
    archive.write(tmp_path / "model", "model", document | {"backbone": {"parts": parts}}, tensors)
    with pytest.raises(ValueError, match=message):
        actgp.load(tmp_path / "model", backbone=sequence())
