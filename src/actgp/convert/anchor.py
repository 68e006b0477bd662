"""A trained network in front of a GP whose prior mean it is: what it gives, and what the GP sees.

    h(x) = [z(x), μ(x)],     f(x) = μ(x) + g(z(x)),     g ~ GP(0, k)

μ is the network itself. z holds the inputs of the network, where these are vectors, the outputs of layers that the user
names, means over space where these are maps, and the features that enter its last Linear layer: what it takes for
alike.
Each of these parts is centred, its columns are brought to the same spread, and it is scaled to E‖z‖² = ρ². Of a
classifier's features f only the direction counts, ρ f / ‖f‖, not centred: what it does not know has small features in
directions of no class, which are near the centre, and so near everything. Logits may be believed less where z is unlike
the data (`forgetting`).
"""

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import normalize

from actgp.convert.forgetting import Forgetting
from actgp.several import GivenRows, Inputs, Rows, call, gathered, parts_of_inputs

RADIUS = 2.0  # ρ
SMALLEST_SPREAD = 1e-6  # of a column, relative to the largest: below it a column is constant
FORGETTING = "forgetting."  # what the names of its tensors begin with
MOST_INPUTS = 200  # columns of X up to which the GP sees them

Select = Callable[[Any], Tensor]
Sees = Literal["inputs and features", "inputs", "features", "outputs"]


class Outputs(NamedTuple):
    """What a network gives.

    Attributes:
        outputs: Its outputs.
        layers: The outputs of layers that were asked for.
        features: What enters its last Linear layer, if that is known.
        flat: Whether it gives [N] rather than [N, 1].
    """

    outputs: Float[Tensor, "N P"]
    layers: tuple[Float[Tensor, "N _"], ...]
    features: Float[Tensor, "N H"] | None
    flat: bool


@dataclass(frozen=True)
class Sight:
    """What of a network z holds.

    Attributes:
        head: The name of its last Linear layer, whose features z holds; None where there is none, or where its features
            are the inputs.
        inputs: Which of the inputs, by position, or by name in a dictionary.
        layers: The names of other layers whose outputs z holds.
        directions: Whether only the direction of features counts.
        selects: Whether its outputs are what a function takes out of what it gives.
    """

    head: str | None
    inputs: tuple[int | str, ...]
    layers: tuple[str, ...]
    directions: bool
    selects: bool

    @property
    def has_features(self) -> bool:
        """Whether z holds more than inputs."""
        return self.head is not None or bool(self.layers)

    def encoded(self) -> Tensor:
        """As JSON in bytes, which a file holds beside the network's tensors."""
        return torch.tensor(list(json.dumps(asdict(self)).encode()), dtype=torch.uint8)

    @classmethod
    def decoded(cls, values: Tensor) -> "Sight":
        """The reverse; refuses what no `Sight` was made into."""
        try:
            read = json.loads(bytes(values.tolist()))
            head, inputs, layers = read["head"], tuple(read["inputs"]), tuple(read["layers"])
            found = cls(head, inputs, layers, read["directions"], read["selects"])
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(
                f"a file must say what the GP of a converted network sees, got what cannot be read ({error}); write it "
                "with the model's save"
            ) from error
        return found


class Anchor(nn.Module):
    """x ↦ [z, μ]: what `GPLayer(prior_mean="carried")` takes.

    Args:
        network: The network, in evaluation mode.
        sight: What z holds.
        select: What takes the outputs out of what the network gives; None for a network that gives them themselves.
        centre: Of z before it is centred and scaled.
        scale: What its columns are multiplied by.
        forgetting: What makes logits less certain away from the data; None if they stay as they are.
    """

    centre: Tensor
    scale: Tensor
    sight_bytes: Tensor

    def __init__(
        self,
        network: nn.Module,
        sight: Sight,
        select: Select | None,
        centre: Float[Tensor, " D"],
        scale: Float[Tensor, " D"],
        forgetting: Forgetting | None = None,
    ) -> None:
        super().__init__()
        self.network, self.sight, self.select = network, sight, select
        self.forgetting = forgetting
        self.register_buffer("centre", centre)
        self.register_buffer("scale", scale)
        self.register_buffer("sight_bytes", sight.encoded())

    def forward(self, X: GivenRows) -> Float[Tensor, "N D+P"]:
        """[z, μ] for each row."""
        rows = gathered(X)
        found = run(self.network, rows, self.sight.head, self.select, self.sight.layers)
        z = scaled(seen(rows, found, self.sight), self.sight, self.centre, self.scale)
        mu = found.outputs.to(self.scale)
        return torch.cat([z, mu if self.forgetting is None else self.forgetting(z, mu)], dim=1)


def anchor_from_file(network: nn.Module, tensors: Mapping[str, Tensor]) -> Anchor | None:
    """The anchor around a network as a file describes it, its tensors yet to be set; None if the file has no anchor.

    Args:
        network: The user's, which is copied.
        tensors: Those of the anchor, by name.
    """
    if not {"centre", "scale", "sight_bytes"} <= tensors.keys():
        return None
    sight = Sight.decoded(tensors["sight_bytes"])
    if sight.selects:
        raise ValueError(
            "a network that was converted with select= must be loaded with the backbone of the same network converted "
            f"again, got the {type(network).__name__} itself; pass backbone=model.backbone of that model"
        )
    forgotten = {
        name.removeprefix(FORGETTING): values for name, values in tensors.items() if name.startswith(FORGETTING)
    }
    forgetting = Forgetting.unset(forgotten) if "directions" in forgotten else None
    return Anchor(frozen_copy(network), sight, None, tensors["centre"].clone(), tensors["scale"].clone(), forgetting)


def frozen_copy(network: nn.Module) -> nn.Module:
    """A copy in evaluation mode, none of whose parameters is trained, without what compiles or distributes it."""
    own = copy.deepcopy(unwrapped(network)).eval()
    for parameter in own.parameters():
        parameter.requires_grad_(False)
    return own


def unwrapped(network: nn.Module) -> nn.Module:
    """The module inside of those that `torch.compile` and DataParallel make: a compiled one would not see hooks."""
    wrappers = ("OptimizedModule", "DataParallel", "DistributedDataParallel")
    while type(network).__name__ in wrappers and type(network).__module__.startswith("torch."):
        (network,) = network.children()
    return network


def run(network: nn.Module, X: Rows, head: str | None, select: Select | None, layers: Sequence[str] = ()) -> Outputs:
    """The outputs at a batch, those of the layers with these names, and the features before the one named `head`."""
    taken: list[Tensor] = []
    at: dict[str, Tensor] = {}
    hooks = [network.get_submodule(name).register_forward_hook(_noted(at, name)) for name in layers]
    if head is not None:
        hooks.append(network.get_submodule(head).register_forward_pre_hook(lambda _, inputs: taken.append(inputs[0])))
    try:
        given = call(network, X)
    finally:
        for hook in hooks:
            hook.remove()
    outputs = given if select is None else select(given)
    N = parts_of_inputs(X)[0].shape[0]  # of any size in an ONNX file, where len(X) would be a number
    if not isinstance(outputs, Tensor) or outputs.ndim not in (1, 2) or outputs.shape[0] != N:
        got = f"shape {list(outputs.shape)}" if isinstance(outputs, Tensor) else type(outputs).__name__
        raise ValueError(
            f"the network must give a tensor [N, P] or [N], here {len(X)} rows, got {got}; pass select=, a function "
            "that takes the outputs out of what the network gives, e.g. lambda given: given[0]"
        )
    between = tuple(_averaged(at, name, N) for name in layers)
    return Outputs(outputs.reshape(N, -1), between, taken[-1] if taken else None, outputs.ndim == 1)


def _noted(at: dict[str, Tensor], name: str) -> Callable[[nn.Module, Any, Any], None]:
    def note(_: nn.Module, __: Any, output: Any) -> None:
        at[name] = output

    return note


def _averaged(at: dict[str, Tensor], name: str, num_rows: int) -> Float[Tensor, "N _"]:
    """What a layer gave, as vectors: means over all axes behind the second."""
    given = at.get(name)
    if not isinstance(given, Tensor) or given.ndim < 2 or given.shape[0] != num_rows:
        got = f"shape {list(given.shape)}" if isinstance(given, Tensor) else type(given).__name__
        raise ValueError(
            f"a layer whose outputs the GP sees must give a tensor [N, C, …] when the network runs, got {got} from "
            f"{name!r}; name another one"
        )
    return given if given.ndim == 2 else given.flatten(2).mean(2)


def look(network: nn.Module, X: Rows, select: Select | None, sees: Sees, layers: Sequence[str]) -> Sight:
    """What z is to hold, seen from a few rows: vectors among the inputs, and features that are not these again."""
    known = {name for name, _ in network.named_modules() if name}
    unknown = [name for name in layers if name not in known]
    if unknown:
        raise ValueError(
            f"layers must be names of modules in the network, got {', '.join(map(repr, unknown))}; choose among "
            f"{', '.join(sorted(known))}"
        )
    inputs = _vectors(X) if "inputs" in sees else ()
    head = _last_linear(network, X) if "features" in sees else None
    features = run(network, X, head, select).features
    if features is None or any(_same(_input(X, key), features) for key in inputs):
        head = None
    if sees == "inputs" and not inputs:
        raise ValueError(
            f"for sees='inputs', X must be matrices [N, D] of numbers with at most {MOST_INPUTS} columns together, got "
            f"{', '.join(str(list(values.shape)) for values in parts_of_inputs(X))}; choose 'features'"
        )
    if sees == "features" and head is None:
        raise ValueError(
            "for sees='features', the network must call its last Linear layer once, with a row for each row of X, got "
            f"no such layer in {type(network).__name__}; choose 'inputs' or 'outputs'"
        )
    run(network, X, None, select, layers)  # refuses what gives no vectors
    return Sight(head, inputs, tuple(layers), False, select is not None)


def seen(X: Rows, found: Outputs, sight: Sight) -> list[Float[Tensor, "N _"]]:
    """The parts of z before they are centred and scaled; the outputs themselves where there is nothing else."""
    parts = [*(_input(X, key) for key in sight.inputs), *found.layers]
    if found.features is not None:
        parts.append(found.features)
    return parts or [found.outputs]


def scaling(parts: Sequence[Float[Tensor, "N _"]], sight: Sight) -> tuple[Float[Tensor, " D"], Float[Tensor, " D"]]:
    """Centre and scale of each column: of like spread within a part, whose E‖z‖² is ρ²; 0 and 1 of directions."""
    centres, scales = [], []
    for part, directed in zip(parts, _directed(parts, sight), strict=True):
        if directed:
            centres.append(part.new_zeros(part.shape[1], dtype=torch.float64))
            scales.append(part.new_ones(part.shape[1], dtype=torch.float64))
            continue
        sd = part.double().std(0, correction=0)
        varies = sd > SMALLEST_SPREAD * sd.max().clamp_min(torch.finfo(torch.float64).tiny)
        count = varies.sum().clamp_min(1).double()
        centres.append(part.double().mean(0))
        scales.append(torch.where(varies, RADIUS / (count.sqrt() * sd), 0.0))
    return torch.cat(centres), torch.cat(scales)


def scaled(
    parts: Sequence[Float[Tensor, "N _"]], sight: Sight, centre: Float[Tensor, " D"], scale: Float[Tensor, " D"]
) -> Float[Tensor, "N D"]:
    """z."""
    pairs = zip(parts, _directed(parts, sight), strict=True)
    columns = [RADIUS * normalize(part.to(scale)) if directed else part.to(scale) for part, directed in pairs]
    return (torch.cat(columns, dim=1) - centre) * scale


def _directed(parts: Sequence[Tensor], sight: Sight) -> list[bool]:
    """Which parts are directions: features, and not inputs."""
    return [sight.directions and i >= len(sight.inputs) for i in range(len(parts))]


def _vectors(X: Rows) -> tuple[int | str, ...]:
    """Which inputs are matrices [N, D] of real numbers; none if they have too many columns together."""
    names = X.names if isinstance(X, Inputs) else None
    keys: Sequence[int | str] = range(len(parts_of_inputs(X))) if names is None else names
    pairs = zip(keys, parts_of_inputs(X), strict=True)
    vectors = {key: values for key, values in pairs if values.ndim == 2 and values.is_floating_point()}
    return tuple(vectors) if sum(values.shape[1] for values in vectors.values()) <= MOST_INPUTS else ()


def _same(values: Tensor, features: Tensor) -> bool:
    return values.shape == features.shape and torch.equal(values, features)


def _input(X: Rows, key: int | str) -> Tensor:
    given = X.given if isinstance(X, Inputs) else (X,)
    return given[key]  # type: ignore[index]  # a name for a dictionary, a position otherwise


def _last_linear(network: nn.Module, X: Rows) -> str | None:
    """The name of the Linear layer that is called last, if it is called once, with one row of features for each row."""
    called: list[str] = []
    fits: dict[str, bool] = {}

    def watch(name: str) -> Callable[[nn.Module, tuple[Any, ...]], None]:
        def note(_: nn.Module, inputs: tuple[Any, ...]) -> None:
            called.append(name)
            fits[name] = len(inputs) == 1 and inputs[0].ndim == 2 and len(inputs[0]) == len(X)

        return note

    hooks = [
        module.register_forward_pre_hook(watch(name))
        for name, module in network.named_modules()
        if isinstance(module, nn.Linear)
    ]
    try:
        call(network, X)
    finally:
        for hook in hooks:
            hook.remove()
    last = called[-1] if called else None
    return last if last is not None and called.count(last) == 1 and fits[last] else None
