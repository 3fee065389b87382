"""The command ``maxq test``."""

from collections.abc import Iterator
from typing import Any

import click
import msgspec

from maxq.checkers.judgement.runner import EXIT_UNKNOWN
from maxq.harness.cli.clusters.attached import OF_CLUSTERS, consented, options_for
from maxq.harness.cli.given import asked
from maxq.harness.cli.given.options import ENVIRONMENT, cluster, load
from maxq.harness.cli.given.param_types import (
    ACCEPT_PARTIAL_OPTION,
    EXPLAIN_OPTION,
    FAIL_ON_OPTION,
    TRY_FIX_OPTION,
    VERBOSE_OPTION,
    usage,
)
from maxq.harness.cli.given.sections import Sectioned, section
from maxq.harness.cli.runs import index_anew
from maxq.harness.cli.show import show
from maxq.harness.cli.stored_runs import explained, with_fixes
from maxq.harness.contracts.target import SHIPPED, spoken
from maxq.harness.contracts.target import plan as plan_of
from maxq.harness.contracts.terminal import echo, pasted
from maxq.harness.environments.choose import SIMULATED
from maxq.harness.run import doctor, stored_run
from maxq.harness.run.execute import capabilities_of, lacking_here, make_target, planned
from maxq.harness.run.run_context import RunContext
from maxq.harness.schedule.format import seconds
from maxq.harness.schedule.options import Options
from maxq.harness.schedule.outlook import in_order, whom
from maxq.harness.targets.changes import said
from maxq.nemeses.catalogue import needs_of
from maxq.reference.records import some

EPILOG = """
\b
Examples:
  maxq test --env simulated --profile default --seed 1
  maxq test --nemesis kill,partition --interval 20s --time-limit 5min
  maxq test --target rocketmq:5.5.0 --broker-conf broker.conf
  maxq test --set broker:flushDiskType=SYNC_FLUSH --nemesis power --env simulated
  maxq test --nemesis kill --plan
"""
FIRST = (
    *("environment", "target", "broker_conf", "profile", "mode", "workload", "nemesis"),
    *("time_limit", "seed", "fail_on", "verbose", "plan"),
)


@click.command(cls=Sectioned, epilog=EPILOG, first=FIRST)
@section("Where", ENVIRONMENT)
@OF_CLUSTERS
@cluster()
@load()
@section(
    "Verdict",
    FAIL_ON_OPTION,
    ACCEPT_PARTIAL_OPTION,
    EXPLAIN_OPTION,
    TRY_FIX_OPTION,
    VERBOSE_OPTION,
    click.option("--json", "as_json", is_flag=True, help="print the verdict as JSON"),
)
@click.option("--keep", is_flag=True, help="leave the cluster up if the run is not valid")
@click.option(
    "--plan", is_flag=True, help="print what would run, and when each fault comes; run nothing"
)
def test(**given: Any) -> int:
    """Run workloads under faults and judge what was recorded.

    Exit codes: 0 valid, 1 invalid, 2 not all judged.
    """
    store, as_json, plan = (given.pop(k) for k in ("store", "as_json", "plan"))
    verbose, accepts = given.pop("verbose"), given.pop("accept_partial")
    fail_on, explain = given.pop("fail_on") or "", given.pop("explain")
    tries = given.pop("tries")
    context = RunContext(keep=given.pop("keep"), base_image=given.pop("base_image"))
    consent = given.pop("consent")
    if given["existing"] is not None:
        options, said_of_nodes = options_for({**given, "store": store})
        existing = some(options.existing, "it was read")
        if not consented(options, existing, said_of_nodes, "" if plan else consent):
            return 0 if plan else EXIT_UNKNOWN
        context = msgspec.structs.replace(context, consent=consent)
    elif consent:
        raise click.UsageError("--yes is for --cluster")
    else:
        options = resolved(given, doctor.Place(base_image=context.base_image, store=store))
    if explain and options.environment != "simulated":
        raise click.UsageError("--explain needs --env simulated, where a run can be repeated")
    if plan:
        show_plan(options, as_json=as_json)
        return 0
    for line in said_of_files(options) if options.existing is None else ():
        echo(line, err=True)
    judged = stored_run.run_test(options, store, quiet=as_json, verbose=verbose, context=context)
    judged = msgspec.structs.replace(judged, fail_on=fail_on)
    judged = explained(judged) if explain else judged
    judged = with_fixes(judged, tries, context.base_image) if tries else judged
    show(judged, as_json=as_json, verbose=verbose)
    index_anew(store)
    if judged.trouble is not None:
        from maxq.harness.cli.given.failures import report

        report(judged.trouble)
    judged = msgspec.structs.replace(judged, short="") if accepts else judged
    return context.stop.exit_code(judged.exit_code, accept_partial=accepts)


def show_plan(options: Options, *, as_json: bool) -> None:
    """Say what would be run: the command that does it, and each act with its time and victim."""
    script = planned(options)
    if as_json:
        plain = {"options": options, "command": options.command(), "acts": script.acts}
        echo(msgspec.json.format(msgspec.json.encode(plain), indent=2).decode())
        return
    nodes = spoken(plan_of(options.topology))
    echo(f"run:     {pasted(options.command())}")
    echo(f"cluster: {nodes}, {options.running}, {options.profile}, {options.timing} timing")
    if options.keys:
        echo(f"set:     {', '.join(f'{k}={v}' for k, v in sorted(options.keys.items()))}")
    for line in said_of_files(options, whole=True):
        echo(line)
    echo(f"faults:  {len(script.acts)} acts in {seconds(options.time_limit_ns):g} s")
    for at, act in in_order(script.acts):
        echo(f"  {at:7.2f} s  {act.id:20}  {act.f:18}  {whom(act)}".rstrip())
    echo("Times are as planned; an act after another one waits for its end. Who plays a part is "
         "found out when the act strikes.")  # fmt: skip


def said_of_files(options: Options, *, whole: bool = False) -> Iterator[str]:
    """What becomes of files of settings; `whole`: with each key that is changed."""
    yield from options.files
    if options.profile == SHIPPED:
        yield from said(options.settings(), make_target(options), whole=whole)
    if options.ignored:
        keys = ", ".join(key.partition(":")[2] for key in options.ignored)
        yield f"not used by {options.running}, and so without effect: {keys}"


def resolved(given: dict[str, Any], place: doctor.Place, *, lasting: bool = False) -> Options:
    """Options as asked for, with stand-ins for what the environment cannot do; or a usage error."""
    with usage():
        options = asked.options_from(given, place, lasting=lasting)
    options = doctor.with_stand_ins(options, place, doctor.aloud)
    for name in () if options.scripted else options.nemesis:
        missing = needs_of([name]) - capabilities_of(options.environment)
        if missing:
            lacks = dict.fromkeys(str(w) for c, w in lacking_here().items() if c in missing)
            why = f": {', '.join(lacks)}" if lacks else ""
            raise click.UsageError(
                f"--env {options.environment} cannot do {name} here{why}; --env {SIMULATED} can"
            )
    return options
