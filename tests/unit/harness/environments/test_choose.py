"""Which environment is taken where none is named: the decisions, and their exact words."""

from typing import Any

import msgspec
import pytest

from maxq.harness.contracts.environment import SIMULATED_ONLY, Capability, Lack
from maxq.harness.environments.choose import WHAT_MAX, Asked, Decision, Facts, decide, preferred

CUT, KILL, POWER = Capability.CUT, Capability.KILL, Capability.POWER_LOSS
REAL = frozenset(Capability) - SIMULATED_ONLY
NO_NFT = Lack("nft is missing", package="nftables")
NO_BASE = Lack("the engine has no base image and cannot pull x", mend="make-one")
DOCKER = Facts(environment="docker", could=REAL, machines_max=255, given="engine 1 answers")
LOCAL = Facts(environment="local", could=REAL, machines_max=255, given="namespaces")
SIMULATED = Facts(
    environment="simulated", could=frozenset(Capability), machines_max=4095, only="reference",
    lasting=False, given="virtual time",
)  # fmt: skip
ASKED = Asked(needs=frozenset({KILL, CUT}), machines=7, target="reference")


def but(facts: Facts, **changed: Any) -> Facts:
    return msgspec.structs.replace(facts, **changed)


def decided(*facts: Facts, **asked: Any) -> list[Decision]:
    wanted = msgspec.structs.replace(ASKED, **asked)
    return [decide(wanted, each) for each in facts]


def chosen(*facts: Facts, **asked: Any) -> str:
    return preferred(decided(*facts, **asked)).environment


def test_the_first_that_can_is_taken_and_no_word_is_lost_on_the_others() -> None:
    choice = preferred(decided(DOCKER, but(LOCAL, lacks=(NO_NFT,)), SIMULATED))
    assert choice.environment == "docker"
    assert choice.lines == ("environment: docker (chosen by auto: engine 1 answers)",)


def test_each_that_is_passed_over_has_a_line_with_what_is_missing_and_the_command() -> None:
    decisions = decided(but(DOCKER, lacks=(NO_BASE,)), but(LOCAL, lacking={CUT: NO_NFT}), SIMULATED)
    choice = preferred(decisions)
    assert choice.environment == "simulated"
    assert choice.lines == (
        "docker: the engine has no base image and cannot pull x; make-one",
        "local: nft is missing; apt-get install nftables",
        "environment: simulated (chosen by auto: virtual time)",
    )
    assert [d.line for d in decisions[:2]] == list(choice.lines[:2]), "doctor says the same"


def test_what_is_missing_and_not_needed_passes_over_nobody() -> None:
    local = but(LOCAL, lacking={CUT: NO_NFT})
    assert chosen(local, SIMULATED, needs=frozenset({KILL})) == "local"
    assert chosen(local, SIMULATED, needs=frozenset({KILL, CUT})) == "simulated"
    assert decided(local, needs=frozenset({KILL}))[0].line == (
        "local: namespaces; can bandwidth, change-address, clock, delay, fill-disk, kill, "
        "packet-loss, pause, power-loss, restart; cannot cut: nft is missing (package nftables)"
    )


def test_all_that_is_missing_is_said_at_once_with_one_command_for_all_packages() -> None:
    no_ip, odd = Lack("ip is missing", package="iproute2"), Lack("odd")
    root = Lack("needs root", mend="run maxq as root")
    local = but(LOCAL, lacks=(no_ip, odd), lacking={CUT: NO_NFT, POWER: root})
    (decision,) = decided(local, needs=frozenset({CUT, POWER}))
    assert decision.line == (
        "local: ip is missing, odd, nft is missing, needs root; "
        "apt-get install iproute2 nftables; run maxq as root"
    )
    (twice,) = decided(but(LOCAL, lacks=(NO_NFT,), lacking={CUT: NO_NFT}))
    assert twice.line == "local: nft is missing; apt-get install nftables"


@pytest.mark.parametrize(
    ("asked", "want"),
    [
        ({"target": "rocketmq:5.5.0"}, "it runs reference nodes only, not rocketmq:5.5.0"),
        ({"lasting": True}, "a cluster is there only during a run"),
        ({"machines": 4096}, "it holds 4095 machines at most, not 4096"),
    ],
)
def test_what_the_simulator_cannot(asked: dict[str, Any], want: str) -> None:
    assert decided(SIMULATED, **asked)[0].line == f"simulated: {want}"
    assert chosen(SIMULATED, machines=4095) == "simulated"


def test_real_machines_run_every_target_and_stay_up_but_are_few() -> None:
    assert chosen(DOCKER, target="rocketmq:5.5.0", lasting=True, machines=255) == "docker"
    assert chosen(DOCKER, LOCAL, SIMULATED, machines=256) == "simulated"


def test_what_only_the_simulator_can_do_passes_over_the_others() -> None:
    decisions = decided(DOCKER, SIMULATED, needs=frozenset({Capability.DRIFT}))
    assert decisions[0].line == "docker: it cannot do clock-drift"
    assert preferred(decisions).environment == "simulated"


def test_where_none_can_every_reason_is_told() -> None:
    java = Lack("there is no java", package="openjdk-17-jre-headless")
    choice = preferred(
        decided(
            but(DOCKER, lacks=(NO_BASE,)), but(LOCAL, lacks=(java,)), SIMULATED,
            target="rocketmq:5.5.0",
        )
    )  # fmt: skip
    assert choice.environment == ""
    assert choice.lines == (
        "docker: the engine has no base image and cannot pull x; make-one",
        "local: there is no java; apt-get install openjdk-17-jre-headless",
        "simulated: it runs reference nodes only, not rocketmq:5.5.0",
        "environment: none can do what is asked",
    )


def test_a_whole_log_becomes_one_line_with_its_begin_and_its_end() -> None:
    log = "build image x:\n" + "step \n" * 500 + "no route\tto host"
    (decision,) = decided(but(DOCKER, lacks=(Lack(log, mend="look"),)))
    assert "\n" not in decision.line
    assert len(decision.line) <= len("docker: ; look") + WHAT_MAX
    assert decision.line.startswith("docker: build image x: step")
    assert decision.line.endswith("no route to host; look")
