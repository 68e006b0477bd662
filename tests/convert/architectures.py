"""Networks as people write them: plain, normalised, residual, recurrent, with attention or control flow."""

from typing import Any

import torch
from torch import Tensor, nn

Inputs = tuple[nn.Module, Any]


class Functional(nn.Module):
    """Calls of functions, weights of its own, no activation modules."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 12), nn.Linear(12, 2)
        self.gain = nn.Parameter(torch.tensor(1.5))

    def forward(self, x: Tensor) -> Tensor:
        h = self.gain * torch.nn.functional.mish(self.first(x))
        return self.last(torch.nn.functional.normalize(h, dim=-1))


class Branching(nn.Module):
    """Control flow that depends on each row."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(6, 1), nn.Linear(6, 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([self.left(row) if row[0] > 0 else self.right(row).tanh() for row in x])


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm, self.again = nn.BatchNorm2d(8), nn.Conv2d(8, 8, 3, padding=1)
        self.fc = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.enter(x)).relu()
        h = (h + self.again(h)).relu()
        return self.fc(h.mean((2, 3)))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(x).mean(1))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells, self.head = nn.GRU(4, 7, batch_first=True), nn.Linear(7, 1)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.cells(x)
        return self.head(states[:, -1])


class Tokens(nn.Module):
    """Whole numbers in, through a table of vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.vectors, self.head = nn.EmbeddingBag(20, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.vectors(x).relu())


class Flat(nn.Module):
    """[N], not [N, 1]."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).squeeze(-1)


class Wrapped(nn.Module):
    """Another network inside, its head called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Sequential(nn.Linear(6, 9), nn.ELU()), nn.Linear(9, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.inner(x)) - self.head(self.inner(-x))


class WithoutParameters(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sum(-1, keepdim=True).sin()


class TwoInputs(nn.Module):
    """A vector and an image."""

    def __init__(self) -> None:
        super().__init__()
        self.eye, self.head = nn.Conv2d(3, 4, 8), nn.Linear(10, 1)

    def forward(self, rows: Tensor, image: Tensor) -> Tensor:
        return self.head(torch.cat([rows, self.eye(image).flatten(1)], dim=1).tanh())


class Named(nn.Module):
    """Tokens and a mask, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.vectors, self.head = nn.Embedding(20, 6), nn.Linear(6, 3)

    def forward(self, *, tokens: Tensor, mask: Tensor) -> Tensor:
        weights = mask.unsqueeze(-1)
        return self.head((self.vectors(tokens) * weights).sum(1) / weights.sum(1))


class Tables(nn.Module):
    """Numbers and categories, by name, out of order."""

    def __init__(self) -> None:
        super().__init__()
        self.vectors, self.body = nn.Embedding(5, 3), nn.Sequential(nn.Linear(9, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, categories: Tensor, numbers: Tensor) -> Tensor:
        return self.body(torch.cat([numbers, self.vectors(categories)], dim=1)).squeeze(-1)


def mlp(*between: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(6, 16), *between, nn.Linear(16, 1))


def architectures() -> dict[str, Inputs]:
    """A network and a batch of its inputs, by name; in training mode, as networks often come."""
    g = torch.Generator().manual_seed(0)
    rows, images = torch.randn(40, 6, generator=g), torch.randn(24, 3, 8, 8, generator=g)
    convolution = nn.Sequential(nn.Conv2d(3, 4, 3), nn.LeakyReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
    return {
        "linear": (nn.Linear(6, 2), rows),
        "relu": (mlp(nn.ReLU()), rows),
        "leaky": (mlp(nn.LeakyReLU(0.2)), rows),
        "elu": (mlp(nn.ELU()), rows),
        "mish": (mlp(nn.Mish()), rows),
        "sigmoid": (mlp(nn.Sigmoid()), rows),
        "prelu": (mlp(nn.PReLU()), rows),
        "batch norm": (mlp(nn.BatchNorm1d(16), nn.ReLU()), rows),
        "layer norm": (mlp(nn.LayerNorm(16), nn.GELU()), rows),
        "dropout": (mlp(nn.Dropout(0.5), nn.SiLU()), rows),
        "weight norm": (nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(6, 8)), nn.Linear(8, 1)), rows),
        "softmax at the end": (nn.Sequential(nn.Linear(6, 5), nn.Softmax(-1)), rows),
        "no last linear": (nn.Sequential(nn.Conv2d(3, 2, 8), nn.Flatten()), images),
        "convolution": (nn.Sequential(convolution, nn.Linear(16, 10)), images),
        "residual": (Residual(), images),
        "attention": (Attention(), torch.randn(20, 5, 8, generator=g)),
        "recurrent": (Recurrent(), torch.randn(20, 5, 4, generator=g)),
        "tokens": (Tokens(), torch.randint(0, 20, (30, 4), generator=g)),
        "functional": (Functional(), rows),
        "branching": (Branching(), rows),
        "flat": (Flat(), rows),
        "wrapped": (Wrapped(), rows),
        "without parameters": (WithoutParameters(), rows),
        "many columns": (
            nn.Sequential(nn.Linear(300, 4), nn.ReLU(), nn.Linear(4, 1)),
            torch.randn(30, 300, generator=g),
        ),
        "data parallel": (nn.DataParallel(mlp(nn.ReLU())), rows),
        "compiled": (torch.compile(mlp(nn.ReLU()), backend="eager"), rows),
        "traced": (torch.jit.trace(mlp(nn.Tanh()), rows), rows),
        "scripted": (torch.jit.script(mlp(nn.ReLU())), rows),
        "compiled within": (nn.Sequential(torch.compile(mlp(nn.ReLU()), backend="eager"), nn.Tanh()), rows),
        "two inputs": (TwoInputs(), (torch.randn(24, 6, generator=g), images)),
        "two vectors": (nn.Bilinear(6, 3, 2), (rows, torch.randn(40, 3, generator=g))),
        "by name": (
            Named(),
            {"tokens": torch.randint(0, 20, (30, 4), generator=g), "mask": torch.ones(30, 4).tril(2).clamp_min(0.1)},
        ),
        "table": (Tables(), {"numbers": rows, "categories": torch.randint(0, 5, (40,), generator=g)}),
        "double": (mlp(nn.Tanh()).double(), rows.double()),
    }
