"""A set over the network, in memory: whole and right, or an error that says what to do instead."""

from http.client import HTTPException
from urllib.request import urlopen

from actgp_experiments.datasets.formats import DAMAGES
from actgp_experiments.datasets.origin import Origin, T

TIMEOUT = 60.0  # seconds without an answer


class DatasetUnavailable(OSError):  # noqa: N818
    """A set that is in no folder and cannot be downloaded."""


def download(source: Origin[T]) -> T:
    """A set, checked."""
    downloads = [_fetch(source, address) for address in source.addresses]
    try:
        data = source.assemble(downloads)
        fault = source.fault(data)
    except DAMAGES as error:
        fault = f"{sum(map(len, downloads))} bytes that are no such thing ({error})"
    if fault:
        raise DatasetUnavailable(
            f"{' and '.join(source.addresses)} must hold {source.contents}, got {fault}; nothing of it was kept: try "
            f"again later, or point ACTGP_DATA at a folder with {source.file}"
        )
    return data


def _fetch(source: Origin[T], address: str) -> bytes:
    try:
        with urlopen(address, timeout=TIMEOUT) as response:
            data: bytes = response.read()
            return data
    except (OSError, HTTPException) as error:
        raise DatasetUnavailable(
            f"{source.name} must be in a folder or come over the network, got neither: {address} failed with "
            f"{type(error).__name__} ({error}); connect to the internet, or point ACTGP_DATA at a folder with "
            f"{source.file}"
        ) from error
