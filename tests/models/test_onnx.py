"""The network of a deep GP leaves Python: exported to ONNX, it gives the same outputs elsewhere."""

from pathlib import Path

import onnxruntime
import pytest
import torch
from torch import nn

import actgp


# torch's exporter copies a tree specification of its own, which warns.
@pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec.. is deprecated:FutureWarning")
def test_the_network_runs_in_onnx(tmp_path: Path) -> None:
    g = torch.Generator().manual_seed(0)
    deep = actgp.deep_gp(
        3,
        num_outputs=2,
        num_layers=2,
        num_inducing=12,
        layers=actgp.Layers(activation=actgp.Softplus(3.0)),
        generator=g,
    )
    with torch.no_grad():
        for layer in deep.gp_layers:
            layer.q.raw_mean.normal_(generator=g)
    deep = actgp.DeepGP(deep.gp_layers, deep.likelihood, nn.Sequential(nn.Linear(5, 3), nn.Tanh()))
    network = deep.network().eval()
    X = torch.randn(4, 5, generator=g)
    path = tmp_path / "network.onnx"
    rows = torch.export.Dim("rows", min=1)
    torch.onnx.export(network, (X,), path, dynamo=True, dynamic_shapes=({0: rows},), verbose=False)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (name,) = [value.name for value in session.get_inputs()]
    for N in (1, 4, 33):  # any number of rows
        X = torch.randn(N, 5, generator=g)
        (output,) = session.run(None, {name: X.numpy()})
        torch.testing.assert_close(torch.from_numpy(output), network(X).detach(), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(torch.from_numpy(output), deep.mean(X).detach(), rtol=1e-5, atol=1e-5)
