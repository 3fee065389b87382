"""Before the first fault: clients get what they need, or the run ends at once and says why not."""

import asyncio
from pathlib import Path

import pytest
from fake_cluster import SET, Cluster, Fake

from maxq.harness.cli.main import run_cli
from maxq.harness.client.session import RouteBook, Session
from maxq.harness.client.trial import DELAYED, HALF, KINDS, Homes, Trial
from maxq.harness.client.trial import TOPIC as TRIAL_TOPIC
from maxq.harness.targets import known_keys
from maxq.histories.fault_facts import TRIAL
from maxq.reference.broker.client_calls.pulls import Pulls
from maxq.reference.records import QueueOffset
from maxq.reference.rpc import Reply, loop_dial
from maxq.reference.wire import property as props
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import (
    PullRequest,
    PullResponse,
    SendResponse,
    from_ext,
    from_short_ext,
    to_ext,
)
from maxq.reference.wire.message import Message, encode, host, offset_msg_id

ALL_BY_HAND = ("broker:autoCreateSubscriptionGroup=false", "broker:autoCreateTopicEnable=false")


def run(tmp_path: Path, *words: str, workload: str = "queue") -> int:
    of = ["--env", "simulated", "--nemesis", "none", "--time-limit", "6s", "--seed", "1"]
    return run_cli(["test", *of, "--workload", workload, "--store", str(tmp_path), *words])


@pytest.mark.parametrize("mode", [(), ("--mode", "pair")], ids=["controllers", "pair"])
def test_what_brokers_may_not_make_themselves_is_made_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: tuple[str, ...]
) -> None:
    sets = [word for key in ALL_BY_HAND for word in ("--set", key)]
    assert run(tmp_path, *mode, *sets, workload="queue,offsets") == 0
    assert "acknowledged messages was lost" in capsys.readouterr().out


def test_a_run_whose_producers_are_refused_names_the_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_keys, "refusal", lambda *_: "")  # what is refused before any run
    assert run(tmp_path, "--set", "broker:brokerPermission=4") == 1
    out = capsys.readouterr()
    assert "not writable by the route" in " ".join(out.out.split())
    assert "none of" not in out.out


def test_a_run_whose_consumers_are_refused_names_the_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """S13: messages are taken, and nobody is given one."""

    def refuse(self: Pulls, request: Frame, connection: object) -> Frame:
        return request.answer(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "no group")

    monkeypatch.setattr(Pulls, "_pull", refuse)
    assert run(tmp_path) == 1
    out = capsys.readouterr()
    assert (
        "the run ends at once: no consumer of group maxq can read maxq-queue of broker set b0: "
        "SUBSCRIPTION_GROUP_NOT_EXIST" in out.err
    )
    text = " ".join(out.out.split())
    assert "No consumer could read from a broker set although everything was healed: " \
           "SUBSCRIPTION_GROUP_NOT_EXIST (S13)." in text  # fmt: skip
    assert TRIAL in (tmp_path / "latest" / "history.jsonl").read_text()


REFUSED = (1, "not here")  # SYSTEM_ERROR, in the words of a broker


@pytest.mark.parametrize(
    ("lacks", "said"),
    [
        (None, ""),
        ("plain", "producer can send a message to a queue"),
        (DELAYED, "producer can send a delayed message to a queue"),
        (HALF, "producer can send a transaction's message to a queue"),
        ("end", "producer can send a transaction's message to a queue"),
        ("read", "consumer can read a message"),
        ("offsets", "consumer group can commit and fetch its offset"),
        ("group", "consumer of group g can read own"),
    ],
)
def test_each_kind_of_message_is_sent_to_every_queue_and_read_back(
    lacks: str | None, said: str
) -> None:
    broker = Scripted(lacks)
    cluster = Cluster(broker)

    async def main(session: Session, routes: RouteBook) -> str:
        routes.watch([TRIAL_TOPIC, "own"])
        await routes.refresh()
        places = {TRIAL_TOPIC: Homes(2, [SET]), "own": Homes(2, [SET])}
        async with asyncio.TaskGroup() as group:
            trial = Trial(routes, loop_dial, group, born_ms=1)
            return await trial.refused(places, ["g"], ["delayed", "half", "offsets"])

    answer = "it is not shown" if lacks == "read" else "SYSTEM_ERROR not here"
    assert cluster.run(main) == (f"no {said} of broker set b0: {answer}" if said else "")
    if not said:
        sent = {(queue, body) for queue, bodies in broker.queues.items() for body in bodies}
        assert sent == {(q, f"trial {kind}".encode()) for q in range(2) for kind in KINDS}
        assert broker.read == {0, 1}


class Scripted:
    """A broker that takes and shows everything at once, but for what it lacks."""

    def __init__(self, lacks: str | None) -> None:
        self.lacks = lacks
        self.queues: dict[int, list[bytes]] = {0: [], 1: []}
        self.half: dict[str, tuple[int, bytes]] = {}
        self.read: set[int] = set()

    def __call__(self, request: Frame, fake: Fake) -> Reply:
        match request.code:
            case RequestCode.SEND_MESSAGE_V2:
                return self._sent(request)
            case RequestCode.END_TRANSACTION:
                queue, body = self.half.pop((request.ext or {})["transactionId"])
                self.queues[queue].append(body)
                return request.answer(*(REFUSED if self.lacks == "end" else (0, None)))
            case RequestCode.PULL_MESSAGE:
                return self._shown(request)
            case RequestCode.UPDATE_CONSUMER_OFFSET | RequestCode.QUERY_CONSUMER_OFFSET:
                if self.lacks == "offsets":
                    return request.answer(*REFUSED)
                return request.answer(0, ext={"offset": "0"})
        return request.answer(0)

    def _sent(self, request: Frame) -> Reply:
        h = from_short_ext(request.ext)
        raw = props.decode((h.properties or "").encode())
        kind = DELAYED if props.DELAY in raw else HALF if props.TRAN_MSG in raw else "plain"
        if kind == self.lacks:
            return request.answer(*REFUSED)
        body = request.body or b""
        if kind == HALF:
            self.half[raw[props.UNIQ_KEY]] = h.queue_id, body
        else:
            self.queues[h.queue_id].append(body)
        place = offset_msg_id(host("198.18.0.32", 10911), 7)
        stored = SendResponse(msg_id=place, queue_id=h.queue_id, queue_offset=0)
        return request.answer(0, ext=to_ext(stored))

    def _shown(self, request: Frame) -> Reply:
        h = from_ext(PullRequest, request.ext)
        if h.topic == "own":
            self.read.add(h.queue_id)
        if h.topic == "own" and self.lacks == "group":
            return request.answer(*REFUSED)
        shows = h.topic == TRIAL_TOPIC and self.lacks != "read"
        left = self.queues[h.queue_id][h.queue_offset :] if shows else []
        at = range(h.queue_offset, h.queue_offset + len(left))
        found = PullResponse(suggest_which_broker_id=0, next_begin_offset=at.stop, min_offset=0,
                             max_offset=at.stop)  # fmt: skip
        messages = (
            Message(topic=h.topic, body=body, queue_id=h.queue_id, queue_offset=QueueOffset(n))
            for n, body in zip(at, left, strict=True)
        )
        code = ResponseCode.SUCCESS if left else ResponseCode.PULL_NOT_FOUND
        return request.answer(code, ext=to_ext(found), body=b"".join(map(encode, messages)))
