"""What suits a table: the shape of the model, and how long it is trained."""

from dataclasses import replace
from typing import NamedTuple

from actgp.layers import PriorMean
from actgp.models import DeepGP
from actgp.training import Recipe

WIDEST = 16  # hidden dimensions: beyond these, sampling them costs more than they tell
FEWEST_STEPS, STEPS, MOST_STEPS = 100, 1_000, 4_000  # of the network stage; the posterior's are half as many
STEPS_FOR_EACH_ROW = 3
MANY_ROWS = 1_000  # from here on, steps grow with the root of the number of rows
SMALL_BATCH, LARGE_BATCH = 128, 512
ROWS_FOR_LARGE_BATCHES = 10_000
HORIZON = 300.0  # of classifiers: radii of data are some units, where it adds next to nothing


class Hidden(NamedTuple):
    """The hidden layers: their width and their prior mean."""

    width: int
    prior_mean: PriorMean


def hidden_layers(input_dim: int) -> Hidden:
    """As wide as the inputs, with skip connections, up to 16 columns; 16 wide, without them, beyond."""
    return Hidden(input_dim, "identity") if input_dim <= WIDEST else Hidden(WIDEST, "zero")


def recipe_for(model: DeepGP, num_rows: int) -> Recipe:
    """The objective that suits the model, with steps and batches that suit the number of rows.

    Steps go with the rows of small tables, stay at 1,000 and 500 up to a thousand rows, and grow with the root of their
    number, up to four times that, beyond.
    """
    suited = Recipe.suited_to(model)
    grown = STEPS * max(1.0, num_rows / MANY_ROWS) ** 0.5
    steps = max(FEWEST_STEPS, min(STEPS_FOR_EACH_ROW * num_rows, int(grown), MOST_STEPS))
    return replace(
        suited,
        network_steps=steps,
        num_steps=steps // 2,
        batch_size=SMALL_BATCH if num_rows < ROWS_FOR_LARGE_BATCHES else LARGE_BATCH,
    )
