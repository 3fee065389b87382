"""The command ``maxq test``."""

from typing import Any

import click
import msgspec

from maxq.harness.cli.failures import report
from maxq.harness.cli.given.options import CLUSTER, ENVIRONMENT, LOAD, with_options
from maxq.harness.cli.param_types import EXPLAIN_OPTION, FAIL_ON_OPTION, usage
from maxq.harness.cli.show import show
from maxq.harness.cli.stored_runs import explained
from maxq.harness.contracts.terminal import echo
from maxq.harness.run import doctor, stored_run
from maxq.harness.run.run_context import RunContext
from maxq.harness.schedule.options import Options


@click.command()
@with_options(ENVIRONMENT, *CLUSTER, *LOAD)
@click.option("--keep", is_flag=True, help="leave a cluster up whose run was not valid")
@click.option("--plan", is_flag=True, help="say what would be run, and run nothing")
@FAIL_ON_OPTION
@EXPLAIN_OPTION
@click.option("--json", "as_json", is_flag=True, help="print the verdict as JSON")
def test(**given: Any) -> int:
    """Run workloads under faults and judge what was recorded."""
    store, as_json, plan = (given.pop(k) for k in ("store", "as_json", "plan"))
    fail_on, explain = given.pop("fail_on") or "", given.pop("explain")
    context = RunContext(keep=given.pop("keep"), base_image=given.pop("base_image"))
    options = resolved(given, doctor.Place(base_image=context.base_image, store=store))
    if explain and options.environment != "simulated":
        raise click.UsageError("--explain needs --env simulated, where a run can be repeated")
    if plan:
        echo(msgspec.json.format(msgspec.json.encode(options), indent=2).decode())
        echo(options.command())
        return 0
    judged = stored_run.run_test(options, store, quiet=as_json, context=context)
    judged = msgspec.structs.replace(judged, fail_on=fail_on)
    judged = explained(judged) if explain else judged
    show(judged, as_json=as_json)
    if judged.trouble is not None:
        report(judged.trouble)
    return judged.exit_code


def resolved(given: dict[str, Any], place: doctor.Place, *, lasting: bool = False) -> Options:
    """Options as asked for, with stand-ins for what the environment cannot do; or a usage error."""
    with usage():
        options = stored_run.options_from(given, place, lasting=lasting)
    return doctor.with_stand_ins(options, place, doctor.aloud)
