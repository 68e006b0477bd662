"""Conversions of small networks."""

import pytest


@pytest.fixture(autouse=True)
def few_rows(small_conversions: None) -> None:
    """All of them."""
