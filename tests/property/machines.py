"""How rule-based machines are run: the same examples each time, and proof that they can fail."""

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

SETTINGS = settings(derandomize=True, deadline=None, max_examples=250, stateful_step_count=40)


def finds(machine: type[RuleBasedStateMachine], how: settings = SETTINGS) -> None:
    """Run a machine on code that was made wrong: it must fail."""
    quick = settings(how, phases=(Phase.generate,), report_multiple_bugs=False)
    with pytest.raises((AssertionError, ValueError, KeyError)):
        run_state_machine_as_test(machine, settings=quick)
