"""Ax: `DeepGPModel` is what its generator fits, predicts with and proposes from."""

import pytest

pytest.importorskip("ax")

import torch
from ax.adapter.registry import Generators
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generation_strategy.transition_criterion import MinTrials
from ax.generators.torch.botorch_modular.surrogate import ModelConfig, SurrogateSpec
from ax.generators.torch.botorch_modular.utils import fit_botorch_model

from actgp.botorch import DeepGPModel

FITTED: list[DeepGPModel] = []


@fit_botorch_model.register(DeepGPModel)
def fit(model: DeepGPModel, mll_class: object = None, mll_options: object = None) -> None:
    FITTED.append(model.fit())


@pytest.fixture
def client() -> Client:
    surrogate = SurrogateSpec(model_configs=[ModelConfig(botorch_model_class=DeepGPModel)])
    deep = GeneratorSpec(Generators.BOTORCH_MODULAR, generator_kwargs={"surrogate_spec": surrogate})
    sobol = GeneratorSpec(Generators.SOBOL, generator_kwargs={"seed": 0})
    nodes = [GenerationNode("Sobol", [sobol], [MinTrials(6, transition_to="Deep")]), GenerationNode("Deep", [deep])]
    client = Client()
    ranges = [RangeParameterConfig(name=n, parameter_type="float", bounds=(-1.0, 2.0)) for n in "ab"]
    client.configure_experiment(ranges)
    client.configure_optimization(objective="score")
    client.set_generation_strategy(GenerationStrategy(name="deep", nodes=nodes))
    FITTED.clear()
    return client


def test_proposes_and_predicts(client: Client) -> None:
    def score(at: dict[str, float]) -> float:
        return -((at["a"] - 0.5) ** 2) - (at["b"] - 0.3) ** 2

    torch.manual_seed(0)
    scores = []
    for _ in range(9):
        for index, at in client.get_next_trials(max_trials=1).items():
            scores.append(score(at))
            client.complete_trial(index, raw_data={"score": scores[-1]})
    assert len(FITTED) == 3  # once for each trial after the first six
    assert max(scores[6:]) > max(scores[:6])
    model = FITTED[-1]
    assert len(model.train_inputs[0]) == 8
    point = {"a": 0.8, "b": 0.1}
    mean, error = client.predict([point])[0]["score"]
    assert abs(mean - score(point)) < 3 * error + 0.1
