"""Images moved by a few pixels and mirrored, each in its own way."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad


def augmented(
    images: Float[Tensor, "N C H W"], translation: int, flips: bool, generator: torch.Generator
) -> Float[Tensor, "N C H W"]:
    """Moves each image by up to `translation` pixels in either direction, black coming in, and mirrors half of them."""
    N, C, H, W = images.shape
    if translation:
        moves = torch.randint(2 * translation + 1, (2, N, 1), generator=generator)  # rows and columns
        rows, columns = moves[0] + torch.arange(H), moves[1] + torch.arange(W)  # [N, H], [N, W]
        padded = pad(images, (translation,) * 4)
        n, c = torch.arange(N)[:, None, None, None], torch.arange(C)[:, None, None]
        images = padded[n, c, rows[:, None, :, None], columns[:, None, None, :]]
    if flips:
        mirrored = torch.rand(N, generator=generator) < 0.5
        images = torch.where(mirrored[:, None, None, None], images.flip(-1), images)
    return images
