"""The dense linear algebra of a step and of a prediction, with nothing around it.

The products with full S, the Cholesky decomposition and its inverse, forward and backward, in float32 but for Kuu, L⁻¹
and the way back from it, into memory that is there already. No series, no likelihood, no automatic differentiation, no
optimiser.
"""

from collections.abc import Callable
from itertools import pairwise

import torch

from benchmarks.problem import Problem

ROWS = 1_000  # of a chunk of a prediction


class Layer:
    """The matrices of one layer, filled with numbers."""

    def __init__(self, inputs: int, outputs: int, M: int, rows: int) -> None:
        d, single, double = inputs + 1, torch.float32, torch.float64
        self.W, self.X = torch.randn(M, d), torch.randn(rows, d)
        self.W64 = self.W.double()
        self.K = self.W64 @ self.W64.T + torch.eye(M, dtype=double)
        self.R64, self.eye = torch.eye(M, dtype=double), torch.eye(M, dtype=double)
        self.R = self.R64.float()
        self.m, self.S = torch.randn(M, outputs), torch.randn(M, outputs * M)
        self.T64, self.MM, self.MM2 = (torch.empty(M, M, dtype=double) for _ in range(3))
        self.T, self.A, self.A_grad = (torch.randn(rows, M, dtype=single) for _ in range(3))
        self.C, self.mean = torch.randn(rows, outputs * M), torch.randn(rows, outputs)
        self.S_grad, self.m_grad = torch.empty_like(self.S), torch.empty_like(self.m)
        self.R_grad, self.W_grad, self.X_grad = torch.empty(M, M), torch.empty(M, d), torch.empty(rows, d)
        self.W64_grad = torch.empty(M, d, dtype=double)

    def constants(self) -> None:
        """Kuu, its Cholesky decomposition, the inverse of that."""
        torch.mm(self.W64, self.W64.T, out=self.T64)
        L, _ = torch.linalg.cholesky_ex(self.K)
        torch.linalg.solve_triangular(L, self.eye, upper=False, out=self.R64)

    def forward(self, rows: int | None = None) -> None:
        """Kuf, A, mean, and A S of all outputs."""
        part = slice(rows)
        torch.mm(self.X[part], self.W.T, out=self.T[part])
        torch.mm(self.T[part], self.R.T, out=self.A[part])
        torch.mm(self.A[part], self.m, out=self.mean[part])
        torch.mm(self.A[part], self.S, out=self.C[part])

    def backward(self) -> None:
        """The gradients of all of these."""
        torch.mm(self.A.T, self.C, out=self.S_grad)
        torch.mm(self.A.T, self.mean, out=self.m_grad)
        torch.mm(self.C, self.S.T, out=self.A_grad).addmm_(self.mean, self.m.T)
        torch.mm(self.A_grad.T, self.T, out=self.R_grad)
        torch.mm(self.A_grad, self.R, out=self.T)
        torch.mm(self.T.T, self.X, out=self.W_grad)
        torch.mm(self.T, self.W, out=self.X_grad)
        torch.mm(self.T64, self.R64.T, out=self.MM)
        torch.mm(self.R64.T, self.MM, out=self.MM2)
        torch.mm(self.MM2, self.R64, out=self.MM)
        torch.mm(self.MM, self.W64, out=self.W64_grad).addmm_(self.MM.T, self.W64)


def step(problem: Problem) -> Callable[[], None]:
    """What an ELBO step cannot do without."""
    sizes = list(pairwise(problem.widths))
    paths = [problem.batch] + [problem.batch * problem.num_samples] * (len(sizes) - 1)
    layers = [Layer(*size, problem.num_inducing, rows) for size, rows in zip(sizes, paths, strict=True)]

    def run() -> None:
        for layer in layers:
            layer.constants()
            layer.forward()
        for layer in layers:
            layer.backward()

    return run


def predict(problem: Problem) -> Callable[[], None]:
    """What a prediction cannot do without."""
    layers = [Layer(*size, problem.num_inducing, ROWS) for size in pairwise(problem.widths)]
    paths = [problem.rows] + [problem.rows * problem.prediction_samples] * (len(layers) - 1)

    def run() -> None:
        for layer, rows in zip(layers, paths, strict=True):
            layer.constants()
            for start in range(0, rows, ROWS):
                layer.forward(min(ROWS, rows - start))

    return run
