"""What has to be known of a set to find it, download it, keep it and check it."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy.typing as npt

T = TypeVar("T")  # what the set is in memory


class Origin(Protocol[T]):
    """Where a set comes from, and what it must hold."""

    @property
    def name(self) -> str:
        """What it is called here."""

    @property
    def file(self) -> str:
        """Its NumPy archive in a folder of data."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The arrays of that archive."""

    @property
    def contents(self) -> str:
        """What it must hold, in words."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """What is downloaded."""

    def assemble(self, downloads: Sequence[bytes]) -> T:
        """The set from what the addresses gave."""

    def unpack(self, arrays: Mapping[str, npt.NDArray[Any]]) -> T:
        """The set from the arrays of an archive."""

    def pack(self, data: T) -> dict[str, npt.NDArray[Any]]:
        """The arrays of an archive from the set."""

    def fault(self, data: T) -> str:
        """What is wrong with the set, in words; nothing if it is right."""
