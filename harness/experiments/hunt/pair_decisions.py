"""Every row of RocketMQ's decision tables without controllers, and how it shows that a run has
reached it.

The tables are: what a name server does with brokers that are silent, gone or say goodbye
(`eviction`), when a slave begins and ends to act (`transition`), where an acting slave sends what
was delayed or prepared (`escape`), how a broker comes online (`pre-online`), and what a returning
master takes from its slaves (`reverse`). A row without a detector is one that nothing visible
shows; one that was never reached is a hole of the hunt.
"""

from maxq.harness.experiments.hunt.decisions import UNLOGGED, Decision
from maxq.harness.known import pair_marks as marks
from maxq.harness.known.detectors import broker, per_broker
from maxq.harness.known.pairs import pair_detectors as d
from maxq.harness.known.pairs.pair_detectors import namesrv, per_namesrv

ONE_A_PROCESS = "no observer sees which brokers share a connection"
ESCAPES = "remote escape is on in all runs"
NO_POP = "no client pops here"

EVICTION = (
    Decision("eviction scan", "silent for longer than its time-out: its channel is closed",
             namesrv(d.EXPIRED)),
    Decision("eviction scan/stale", "and again, since its address stands in no group any more",
             per_namesrv(d.stale_entries)),
    Decision("eviction channel", "its connection ended: to be removed", namesrv(d.DESTROYED)),
    Decision("eviction channel/neighbour", "another broker of that connection is removed",
             why=ONE_A_PROCESS),
    Decision("eviction goodbye", "it said goodbye (104): to be removed",
             per_namesrv(d.said_goodbye)),
    Decision("eviction full", "more than the queue takes: refused", namesrv(
        "Couldn't submit the unregister broker request to handler")),
    Decision("eviction late", "a heartbeat between decision and removal: not honoured",
             why=UNLOGGED),
    Decision("eviction twice", "its address stands in no group any more: nothing to remove there",
             namesrv(d.NO_ADDRESS)),
    Decision("eviction empty", "the last of its group: the group is removed", namesrv(d.EMPTY)),
    Decision("eviction empty/cluster", "and the cluster, the group being its last",
             namesrv(d.LAST_OF_CLUSTER)),
    Decision("eviction reduced", "others of its group are left", namesrv(d.REDUCED)),
    Decision("eviction reduced/write", "none of them a master: the group is only read from",
             d.shown_acting),
    Decision("eviction reduced/notice", "the smallest id has changed: the others learn of it (905)",
             namesrv("min broker id changed to")),
)  # fmt: skip
TRANSITION = (
    Decision("transition poll/other", "asked (901): the smallest id is another slave's",
             d.changed_to("other")),
    Decision("transition poll/own", "asked: it is my own", d.changed_to("own")),
    Decision("transition poll/master", "asked: it is the master's", d.changed_to("master")),
    Decision("transition poll/same", "asked: the same as before", why=UNLOGGED),
    Decision("transition poll/empty", "asked: nobody is there: ignored",
             broker("Couldn't find any broker member from namesrv in")),
    Decision("transition poll/failed", "asked: no answer: ignored",
             broker("syncBrokerMemberGroup from namesrv failed")),
    Decision("transition push", "reported (905): the smallest id has changed",
             broker("min broker id changed, prev")),
    Decision("transition on", "my own id is the smallest: special services on", broker(marks.ACTS)),
    Decision("transition off", "it is not any more: special services off",
             broker(marks.ACTS_NO_MORE)),
    Decision("transition leave", "the master has gone: its address is forgotten",
             per_broker(d.left_master)),
    Decision("transition dial", "the master is back: its HA address is taken",
             per_broker(d.dialled)),
    Decision("transition dial/failed", "it does not say its HA address",
             broker("retrieve master ha info exception")),
    Decision("transition wake", "the master is back: held pulls are woken", why=UNLOGGED),
)  # fmt: skip
ESCAPE = (
    Decision("escape local", "a master is in my process: into its store", why=ONE_A_PROCESS),
    Decision("escape delayed", "a delayed message, to a queue of another group",
             d.moved("send-delayed", "read-delayed")),
    Decision("escape half", "a half message, to a queue of another group",
             d.moved("send-half", "read-transactions")),
    Decision("escape queue", "by a hash, to one queue of the group", why=NO_POP),
    Decision("escape own", "no group has the topic but my own, which cannot be written to",
             broker("sendMessageInFailover to remote failed", r"(?s)by zero|ArithmeticException")),
    Decision("escape no-route", "no group that has the topic can be written to",
             broker("no route info of topic")),
    Decision("escape no-broker", "no group was chosen",
             broker("putMessageToRemoteBroker failed, remote broker not found")),
    Decision("escape no-address", "the chosen group has no master that can be written to",
             broker("putMessageToRemoteBroker failed, remote broker address not found")),
    Decision("escape refused", "the target answers otherwise than SEND_OK",
             broker("Escaping failed! cost")),
    Decision("escape silent", "the target does not answer",
             broker("putMessageToRemoteBroker exception, MsgId")),
    Decision("escape off", "nobody may escape to other groups", why=ESCAPES),
    Decision("escape delayed/again", "a delayed message could not be moved: again, for ever",
             broker("ScheduleMessageService put message failed")),
    Decision("escape half/again", "a half message could not be moved: up to ten times more",
             broker(marks.HALF_FAILED)),
    Decision("escape half/skipped", "and is left behind", broker(marks.SKIPPED)),
)  # fmt: skip
PRE_ONLINE = (
    Decision("pre-online no-answer", "no answer (901): again",
             broker("syncBrokerMemberGroup from namesrv error, start service failed")),
    Decision("pre-online empty", "the group is empty: online at once", broker(marks.ALONE)),
    Decision("pre-online master/announce", "master: each member learns where to dial (906)",
             broker(marks.WAITS)),
    Decision("pre-online master/untold", "it cannot be reached: again",
             broker("send ha address to", "exception")),
    Decision("pre-online master/waits", "it dials not in time: again",
             broker("Wait handshake completion exception")),
    Decision("pre-online master/lost", "its connection ended: again",
             broker("wait for handshake completion failed, HA connection lost")),
    Decision("pre-online master/reverse", "it dialled: its tables are asked for",
             broker(marks.REVERSE)),
    Decision("pre-online master/online", "all members done: online", broker(marks.ONLINE)),
    Decision("pre-online slave/master", "slave: the master's HA address is asked for and dialled",
             broker("slave preOnline complete, start service")),
    Decision("pre-online slave/untold", "the master does not answer: again",
             broker("retrieve master ha info exception")),
    Decision("pre-online slave/no-address", "the master has none: online at once",
             broker("fetch master ha address return null")),
    Decision("pre-online slave/alone", "slave, and no master is there: online at once",
             broker("no master online, start service directly")),
    Decision("pre-online error", "anything unexpected: again", broker("Broker preOnline error")),
)  # fmt: skip
REVERSED = (
    Decision("reverse offsets/theirs", "consumer offsets of no older version: taken",
             d.taken(marks.OFFSETS)),
    Decision("reverse offsets/mine", "of an older version: mine are kept", d.kept(marks.OFFSETS)),
    Decision("reverse progress/theirs", "progress of delayed messages of no older version: taken",
             d.taken(marks.PROGRESS)),
    Decision("reverse progress/mine", "of an older version: mine is kept", d.kept(marks.PROGRESS)),
    Decision("reverse checkpoint/theirs", "checkpoint of the timer of no older version: taken",
             d.taken(marks.CHECKPOINT)),
    Decision("reverse checkpoint/mine", "of an older version: mine is kept",
             d.kept(marks.CHECKPOINT)),
    Decision("reverse failed", "one of the three is not had: again", broker(marks.REVERSE_FAILED)),
)  # fmt: skip
PAIR_DECISIONS: tuple[Decision, ...] = (
    *EVICTION, *TRANSITION, *ESCAPE, *PRE_ONLINE, *REVERSED,
)  # fmt: skip
