"""When held-out rows choose how wide predictions are: after stage 2; and when that is applied: at the end of a run."""

from actgp.training.checkpoint import Run
from actgp.training.frozen import train_mode
from actgp.training.settling import apply_factors, choose_factors, settle_temperature
from actgp.training.undo import undone_if_broken_off


def choose_widths(run: Run) -> None:
    """Asks rows held out of stage 2 for factors, to be applied at the end, or, if they were given, a temperature."""
    if run.judges is None:
        return
    run.model.eval()
    run.factors = choose_factors(run.model, *run.judges)
    if run.judges_given:
        with undone_if_broken_off(run.model):
            settle_temperature(run.model, *run.judges)
    train_mode(run.model)


def apply_widths(run: Run) -> None:
    """Applies the factors that have been chosen, once."""
    if run.factors is None:
        return
    with undone_if_broken_off(run.model):
        apply_factors(run.model, run.factors)
        run.factors = None
