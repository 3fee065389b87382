"""Every row of RocketMQ's decision tables, and how it shows that a run has reached it.

The tables are those of docs/spec/controller-ha.md 2.4 (what controllers check), 3.5 (what a broker
does with an answer to its poll), 4.6 (truncation at the handshake), 4.8 (the list of epochs), 5.2
(what an acknowledgement waits for), 5.3 (confirmOffset), 5.4 and 5.5 (the SyncStateSet of a master,
and how it is reported). A row without a detector is one that nothing
visible shows; it is marked as such and is never called reached. A row with one that was never
reached is a hole of the hunt.
"""

from typing import NamedTuple

from maxq.harness.known import detectors as d
from maxq.harness.known.detectors import Detector, broker, controller, decision


class Decision(NamedTuple):
    """A row: where it is, what it says, and its detector; `why` there is none."""

    id: str
    says: str
    seen: Detector | None = None
    why: str = ""


REPORT = "Error happen when change SyncStateSet"
POLL = "Error happen when get broker"
UNLOGGED = "not logged, and no answer shows it"
NOT_ASKED = "no node sends 1011 here"

APPLY = (
    Decision("2.4 apply/1", "id 1 of an unknown set: given", d.applied(d.FIRST)),
    Decision("2.4 apply/2", "another id of such a set: 2014", d.applied(d.SET_UNKNOWN)),
    Decision("2.4 apply/3", "an id that no broker has: given", d.applied(d.NEW)),
    Decision("2.4 apply/4", "an id that this applicant has: given again", d.applied(d.AGAIN)),
    Decision("2.4 apply/5", "an id that another one has: 2014", d.applied(d.TAKEN)),
)
REGISTER = (
    Decision("2.4 register/1", "set unknown: 2010",
             broker("", r"CODE: 2010 .*Broker-set: \S+ hasn't been registered")),
    Decision("2.4 register/2", "id unknown: 2010",
             broker("", r"CODE: 2010 .*BrokerId: \d+ hasn't been registered")),
    Decision("2.4 register/3", "known: registered",
             broker("Register state change to: REGISTERED")),
    Decision("2.4 register/4", "known at another address: that is replaced",
             controller("UpdateBrokerAddressEvent{", " result ControllerResult")),
)  # fmt: skip
ALTER = (
    Decision("2.4 alter/1", "set unknown: 2013", broker(REPORT, r"CODE: 2013 .*not existed")),
    Decision("2.4 alter/2", "the same members: 2013",
             controller("The newSyncStateSet is equal with oldSyncStateSet")),
    Decision("2.4 alter/3", "not from the master: 2002",
             controller("alter syncStateSet request because the current leader is:")),
    Decision("2.4 alter/4", "another master epoch: 2000",
             controller("alter syncStateSet request because the current master epoch is:")),
    Decision("2.4 alter/5", "another epoch of the set: 2001",
             controller("alter syncStateSet request because the current syncStateSet epoch is:")),
    Decision("2.4 alter/6", "a member that is not registered: 2003",
             controller("alter syncStateSet request because the replicas", "don't exist")),
    Decision("2.4 alter/7", "a member that is not alive: 2006",
             controller("alter syncStateSet request because the replicas", "don't alive")),
    Decision("2.4 alter/8", "without the master: 2013", controller("don't contains origin leader")),
    Decision("2.4 alter/9", "none of these: changed",
             decision("alterSyncStateSet", 1001, r"AlterSyncStateSetEvent\{")),
)  # fmt: skip
ELECTED = r"newMasterElected=true.*masterEpoch="
ELECT = (
    Decision("2.4 elect/1", "set unknown: 2010",
             broker("Failed to try elect", r"CODE: 2010 .*Broker hasn't been registered")),
    Decision("2.4 elect/2", "the first election: the one that asks",
             decision("electMaster", 1002, rf"{ELECTED}1\b")),
    Decision("2.4 elect/3", "a later one: by the policy, who becomes master",
             decision("electMaster", 1002, rf"{ELECTED}(?!1\b)\d")),
    Decision("2.4 elect/4", "the old master: 2011, nothing changes",
             controller("is still alive, not need to elect new master")),
    Decision("2.4 elect/5", "a candidate: master, alone in the set, under new epochs",
             decision("electMaster", 1002, ELECTED)),
    Decision("2.4 elect/6", "no candidate, and a controller asked: no master, a new epoch",
             decision("electMaster", 1002, "newMasterElected=false")),
    Decision("2.4 elect/7", "no candidate, and a broker or an operator asked: 2012",
             d.per_controller(d.no_candidate)),
)  # fmt: skip
CLEAN = (
    Decision("2.4 clean/1", "no ids, and there is a master: 2009", why=NOT_ASKED),
    Decision("2.4 clean/2", "ids that are no numbers: 2009", why=NOT_ASKED),
    Decision("2.4 clean/3", "an id that lives: 2009", why=NOT_ASKED),
    Decision("2.4 clean/4", "set unknown: 2009", why=NOT_ASKED),
    Decision("2.4 clean/5", "none of these: removed", why=NOT_ASKED),
)
POLLED = (
    Decision("3.5/1", "newer epoch, I am master: change", d.by_poll("master")),
    Decision("3.5/2", "newer epoch, another is: follow", d.by_poll("slave")),
    Decision("3.5/3", "newer epoch, no master: ask for my own election",
             decision("getReplicaInfo", 1004, "masterBrokerId=null")),
    Decision("3.5/4", "my epoch, I am master: take over a newer set",
             why="looks like the answer to a report"),
    Decision("3.5/5", "older epoch: ignore", why=UNLOGGED),
    Decision("3.5/6", "2008: register again", broker(POLL, "CODE: 2008 ")),
    Decision("3.5/7", "2007 or no answer: go on", broker(POLL, r"(?s)metadata\n(?!.*CODE: 2008 )")),
)  # fmt: skip
HANDSHAKE = (
    Decision("4.6/1", "my list is empty: nothing is cut",
             broker("Slave local epochCache is empty, skip truncate log")),
    Decision("4.6/2", "my last entry ends with my log", broker(
        "local epoch entries is", r"endOffset=(?!9223372036854775807)\d+\}\]")),
    Decision("4.6/2b", "it begins behind it, and stays open",
             broker("local epoch entries is", r"endOffset=9223372036854775807\}\]")),
    Decision("4.6/3", "an entry that both have: the point", broker("truncateOffset is", r"is \d")),
    Decision("4.6/4", "none: close, and try again for ever",
             broker("Failed to find a consistent point between masterEpoch")),
    Decision("4.6/5", "point at the end or behind: nothing to cut",
             broker("no need to truncate files, truncate offset is")),
    Decision("4.6/5b", "no message begins there: close, and try again for ever",
             broker("is not align, truncate failed")),
    Decision("4.6/6", "cut", d.per_broker(d.cut_at_handshake)),
    Decision("4.6/6b", "and the entries that begin there or behind removed",
             broker("Truncate slave log to")),
    Decision("4.6/7", "go on from the point", d.per_broker(d.went_on)),
)  # fmt: skip
EPOCHS = (
    Decision("4.8 load", "entries of the file, by a slave that came back",
             d.per_broker(d.reloaded)),
    Decision("4.8 append", "taken (1007: a list has got longer)", d.entries_added),
    Decision("4.8 append/epoch", "refused: the last epoch is as high",
             d.append_refused(by_epoch=True)),
    Decision("4.8 append/start", "refused: the last entry begins as late",
             d.append_refused(by_epoch=False)),
    Decision("4.8 cut suffix/epoch", "by epoch, at a change to master", why=UNLOGGED),
    Decision("4.8 cut suffix/offset", "by offset (1007: a last entry has gone)", d.suffix_cut),
    Decision("4.8 cut prefix", "after files were deleted (1007: a first entry has gone)",
             d.prefix_cut),
    Decision("4.8 find", "an entry for an offset", broker("Master transfer data to slave")),
    Decision("4.8 find/none", "none", broker("Failed to find an epochEntry to match")),
)  # fmt: skip
WAIT = (
    Decision("5.2 all/alone", "all of a set of one: at once", d.acknowledged_by(alone=True)),
    Decision("5.2 all", "all of a set of more", d.acknowledged_by(alone=False)),
    Decision("5.2 number/1", "one replica: at once", d.acknowledged("P-DEFAULT")),
    Decision("5.2 number/2", "two replicas, whichever", d.acknowledged("P-NUM")),
    Decision("5.2 late", "not enough in time: FLUSH_SLAVE_TIMEOUT",
             broker("transfer message to slave timeout")),
    Decision("5.2 twice", "two connections of one slave count twice", why=UNLOGGED),
)  # fmt: skip
CONFIRM = (
    Decision("5.3/1", "master of a set of one: the end", d.adopted("one")),
    Decision("5.3/2", "master that does not wait for all: the end",
             lambda r: d.acknowledged("P-NUM")(r) + d.acknowledged("P-DEFAULT")(r)),
    Decision("5.3/3", "another master: what was computed", d.adopted("more")),
    Decision("5.3/4", "slave, or fenced: what is stored", why="907 does not report it"),
    Decision("5.3/5", "5.0 and 5.1.0: always the end", why="not of this release"),
    Decision("5.3 compute/1", "a member without a connection: as before",
             broker("is still in syncStateSet, but has lost its connection")),
    Decision("5.3 compute/2", "else the lowest ack of those who have acked", why=UNLOGGED),
    Decision("5.3 back", "it went back, within an epoch", d.per_broker(d.confirmed_back)),
    Decision("5.3 slave", "slave: the lower of its master's and its own end", why=UNLOGGED),
)  # fmt: skip
SETS = (
    Decision("5.4 sent", "a frame sent: its end and time are kept", why=UNLOGGED),
    Decision("5.4 ack", "an ack that reaches it: caught up then, or now", why=UNLOGGED),
    Decision("5.4 idle", "nothing to send: caught up now, whatever was acked", why=UNLOGGED),
    Decision("5.4 expand", "a slave that has all: to be taken in", broker(d.CAUGHT_UP)),
    Decision("5.4 expand/again", "once more, before the set has changed",
             d.per_broker(d.expanded_again)),
    Decision("5.4 shrink/time", "behind for too long: to be taken out",
             d.per_broker(d.shrunk_by_time)),
    Decision("5.4 shrink/disconnect", "its connection ended: to be taken out",
             d.per_broker(d.shrunk_by_disconnect)),
    Decision("5.5 success", "granted: taken over", d.per_broker(d.reported)),
    Decision("5.5 twice", "reported twice: 2013, nothing changes",
             broker(REPORT, "CODE: 2013 .*is equal with")),
    Decision("5.5 failure", "refused or unanswered: stays asked for",
             broker(REPORT, r"(?s)Epoch:\d+\n(?!.*is equal with)")),
    Decision("5.5 pending", "until the poll brings a newer set", why="looks like a report"),
    Decision("5.5 replace", "asked for again meanwhile: the later set counts", why=UNLOGGED),
)  # fmt: skip
DECISIONS: tuple[Decision, ...] = (
    *APPLY, *REGISTER, *ALTER, *ELECT, *CLEAN,
    *POLLED, *HANDSHAKE, *EPOCHS, *WAIT, *CONFIRM, *SETS,
)  # fmt: skip
