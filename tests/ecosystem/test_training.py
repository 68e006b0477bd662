"""Loops of others: Lightning, Accelerate, skorch, TensorBoard."""

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import actgp

N = 96


@pytest.fixture
def data(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    X = 4 * torch.rand(N, 2, generator=generator) - 2
    return X, torch.sin(2 * X[:, 0]) + 0.1 * torch.randn(N, generator=generator)


@pytest.fixture
def model(data: tuple[Tensor, Tensor], generator: torch.Generator) -> actgp.DeepGP:
    """Trained as a network, about to be trained as a posterior."""
    X, y = data
    model = actgp.deep_gp(input_dim=2, num_layers=2, num_inducing=12, generator=generator)
    actgp.start_network(model, X, generator=generator)
    adam = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(40):
        adam.zero_grad()
        torch.nn.functional.mse_loss(model(X), y).backward()
        adam.step()
    actgp.start_posterior(model, X, y, generator=generator)
    return model


def bound(model: actgp.DeepGP, data: tuple[Tensor, Tensor]) -> float:
    torch.manual_seed(0)
    with torch.no_grad():
        return model.elbo(*data, num_data=N, num_samples=64).item()


def loader(data: tuple[Tensor, Tensor]) -> "DataLoader[tuple[Tensor, ...]]":
    return DataLoader(TensorDataset(*data), batch_size=32, shuffle=True)


def test_lightning(model: actgp.DeepGP, data: tuple[Tensor, Tensor], tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning")

    class Posterior(lightning.LightningModule):
        def __init__(self, model: actgp.DeepGP, num_data: int) -> None:
            super().__init__()
            self.model, self.num_data = model, num_data

        def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
            return -self.model.elbo(*batch, num_data=self.num_data)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters(), lr=1e-3)

    before = bound(model, data)
    trainer = lightning.Trainer(
        max_epochs=10,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
    )
    trainer.fit(Posterior(model, N), loader(data))
    assert bound(model, data) > before + 0.5
    (checkpoint,) = tmp_path.rglob("*.ckpt")
    fresh = actgp.deep_gp(input_dim=2, num_layers=2, num_inducing=12)
    again = Posterior.load_from_checkpoint(checkpoint, model=fresh, num_data=N, weights_only=True)
    assert torch.equal(again.model.mean(data[0]), model.mean(data[0]))


def test_accelerate(model: actgp.DeepGP, data: tuple[Tensor, Tensor]) -> None:
    accelerate = pytest.importorskip("accelerate")
    accelerator, before = accelerate.Accelerator(cpu=True), bound(model, data)
    prepared, adam, batches = accelerator.prepare(model, torch.optim.Adam(model.parameters(), lr=1e-3), loader(data))
    for _ in range(10):
        for X, y in batches:
            adam.zero_grad()
            accelerator.backward(-prepared.elbo(X, y, num_data=N))
            adam.step()
    assert accelerator.unwrap_model(prepared) is model
    assert bound(model, data) > before + 0.5


def test_skorch(model: actgp.DeepGP, data: tuple[Tensor, Tensor]) -> None:
    skorch = pytest.importorskip("skorch")

    class PosteriorNet(skorch.NeuralNetRegressor):
        def get_loss(self, y_pred: Tensor, y_true: Tensor, X: Tensor, training: bool = False) -> Tensor:
            return -self.module_.elbo(X, y_true, num_data=N)

    before = bound(model, data)
    options = {"batch_size": 32, "train_split": None, "verbose": 0, "optimizer": torch.optim.Adam}
    net = PosteriorNet(model, max_epochs=10, lr=1e-3, **options).fit(*data)
    assert bound(net.module_, data) > before + 0.5
    torch.testing.assert_close(torch.from_numpy(net.predict(data[0])), net.module_.mean(data[0]))


def test_tensorboard(data: tuple[Tensor, Tensor], tmp_path: Path) -> None:
    board = pytest.importorskip("torch.utils.tensorboard", exc_type=ImportError)
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    writer = board.SummaryWriter(tmp_path)

    def log(step: actgp.Step) -> None:
        writer.add_scalar(f"{step.stage}/objective", step.objective, step.step)

    model = actgp.deep_gp(input_dim=2, num_layers=2, num_inducing=12)
    result = actgp.fit(model, *data, actgp.Recipe(network_steps=5, num_steps=6), callback=log, progress=False)
    writer.close()
    kept = events.EventAccumulator(str(tmp_path)).Reload()
    logged = [event.value for stage in ("network", "posterior") for event in kept.Scalars(f"{stage}/objective")]
    torch.testing.assert_close(logged, [*result.network_objectives, *result.objectives], rtol=1e-6, atol=0)
