"""What all cells of the grid share, the same for every data set."""

from dataclasses import dataclass


@dataclass(frozen=True)
class BringSettings:
    """Of the networks, and of what is put around them.

    Attributes:
        units: Of each hidden layer.
        steps: At most, of AdamW.
        batch_size: Rows of a minibatch.
        rate: AdamW's learning rate.
        weight_decay: AdamW's.
        validation: The part of the training rows by which training is stopped, and then widths are chosen.
        every: Steps between two looks at the validation rows.
        patience: Steps without a better score after which training ends.
        dropout: The rate of the network that has dropout.
        members: Networks of the ensemble.
        samples: Passes with dropout.
        evidence_steps: Of Adam on the marginal likelihood, as in the documentation of laplace-torch.
        variational_steps: Of VBLL at most, whose noise starts far off and is slow to come.
        basis: Rows of which ELLA makes its basis.
        eigenvalues: Of that basis, kept.
        clip: The norm of a gradient to which VBLL's are clipped, as in its tutorial.
        wishart_scale: Of VBLL's prior on the noise, likewise.
    """

    units: int = 100
    steps: int = 5_000
    batch_size: int = 128
    rate: float = 2e-3
    weight_decay: float = 1e-4
    validation: float = 0.2
    every: int = 50
    patience: int = 1_000
    dropout: float = 0.05
    members: int = 5
    samples: int = 100
    evidence_steps: int = 1_000
    variational_steps: int = 10_000
    basis: int = 100
    eigenvalues: int = 20
    clip: float = 1.0
    wishart_scale: float = 0.1


QUICK = BringSettings(
    steps=200, members=2, samples=10, evidence_steps=50, variational_steps=50, basis=40, eigenvalues=10
)
