"""What a training step and a prediction cost, beside the peers, in one run on one machine."""
