"""A set over the network, in memory: whole and right, or an error that says what to do instead."""

from http.client import HTTPException
from urllib.request import urlopen

import numpy as np
import numpy.typing as npt

from actgp.datasets.formats import DAMAGES
from actgp.datasets.sources import Source

TIMEOUT = 60.0  # seconds without an answer


class DatasetUnavailable(OSError):  # noqa: N818
    """A set that is in no folder and cannot be downloaded."""


def download(source: Source) -> npt.NDArray[np.float64]:
    """The table [N, D + 1] of a set, checked."""
    data = _fetch(source)
    try:
        table = source.parse(data)[:, : len(source.features) + 1]
        fault = source.fault(table)
    except DAMAGES as error:
        fault = f"{len(data)} bytes that are no such table ({error})"
    if fault:
        raise DatasetUnavailable(
            f"{source.address} must hold {source.contents}, got {fault}; nothing of it was kept: try again later, or "
            f"point ACTGP_DATA at a folder with {source.file}"
        )
    return table


def _fetch(source: Source) -> bytes:
    try:
        with urlopen(source.address, timeout=TIMEOUT) as response:
            data: bytes = response.read()
            return data
    except (OSError, HTTPException) as error:
        raise DatasetUnavailable(
            f"{source.name} must be in a folder or come over the network, got neither: {source.address} failed with "
            f"{type(error).__name__} ({error}); connect to the internet, or point ACTGP_DATA at a folder with "
            f"{source.file}"
        ) from error
