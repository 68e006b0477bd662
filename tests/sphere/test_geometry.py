import torch
from hypothesis import given
from hypothesis import strategies as st

from actgp.sphere import lift, project


def test_lift_appends_the_bias_coordinate(dtype: torch.dtype) -> None:
    X = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=dtype)
    assert torch.equal(lift(X), torch.tensor([[1.0, 2.0, 1.0], [3.0, 4.0, 1.0]], dtype=dtype))


@given(seed=st.integers(0, 1000), inputs=st.integers(1, 50))
def test_projection_and_radius_restore_the_point(seed: int, inputs: int) -> None:
    X = torch.randn(5, inputs, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    radius, direction = project(lift(X))
    torch.testing.assert_close(radius[:, None] * direction, lift(X), rtol=1e-14, atol=1e-14)
    torch.testing.assert_close(direction.norm(dim=-1), torch.ones(5, dtype=torch.float64), rtol=1e-14, atol=0)


def test_the_origin_of_data_space_is_not_the_origin_of_the_lifted_space() -> None:
    radius, direction = project(lift(torch.zeros(1, 3)))
    assert radius.item() == 1.0
    assert torch.equal(direction, torch.tensor([[0.0, 0.0, 0.0, 1.0]]))
