"""What nodes' logs show of brokers without controllers: lines that say what they decide.

Wordings are those of 5.5.0; of a line that says more the constant is a part. 5.1.1 and 5.3.3 have
them as well.
"""

from collections.abc import Iterable, Iterator

MIN_CHANGED = "Min broker changed, old: "
ACTS, ACTS_NO_MORE = (
    "ScheduleServiceStatus changed to true",
    "ScheduleServiceStatus changed to false",
)
REVERSE, REVERSE_FAILED = "Get metadata reverse from", "GetMetadataReverse Failed"
THEIRS = "data version is larger than master broker"
OFFSETS, PROGRESS, CHECKPOINT = "consumerOffset", "scheduleMessageService", "timerCheckpoint"
ONLINE = "master preOnline complete, start service"
ALONE = "no other broker online, will start service directly"
WAITS = "wait for handshake completion with"
BOOTED = "rocketmqHome="  # of a process: one of the first lines
UNQUOTED = "not support unquoted name"  # of JSON
NOT_COPIED = "SyncConsumerOffset Exception"
HALF_FAILED = "Escaping transactional message failed"
SKIPPED = f"{HALF_FAILED} 11 times"  # after the last of ten more tries it is left behind
CHECKED = "Check transaction. real_topic="  # producers are asked, and the half message copied
UNREAD = "slaveReadEnable=false"  # of a broker's settings, which it writes at its start
STILL = "enableSlaveActingMaster=false"  # likewise
PUT_FAILED = "ScheduleMessageService put message failed"
BLOCKED = 20  # failed tries of a broker, ten a second of each message, that hold up what follows
SEND_FAILED = "sendMessageInFailover to remote failed"
LONGER = "master pushed offset not equal the max phy offset in slave"
PAIR_MARKS = (
    MIN_CHANGED, ACTS, ACTS_NO_MORE, REVERSE, REVERSE_FAILED, THEIRS, ONLINE, ALONE, WAITS,
    BOOTED, CHECKED, UNREAD, STILL, UNQUOTED, NOT_COPIED, HALF_FAILED, PUT_FAILED, SEND_FAILED,
    LONGER,
)  # fmt: skip


def reversals(texts: Iterable[str]) -> Iterator[list[str]]:
    """What a returning master wrote of each member from which it had all that it asked for: a line
    for each table that it took."""
    said: list[str] | None = None
    for text in texts:
        if said is not None and any(t in text for t in (REVERSE, ONLINE, WAITS)):
            yield said
            said = None
        if REVERSE in text:
            said = []
        elif REVERSE_FAILED in text:
            said = None
        elif said is not None and THEIRS in text:
            said.append(text)
