"""What each claim is called in a few words, so that its number never stands alone on a screen.

A test holds them against the list of claims.
"""

from collections.abc import Mapping, Sequence

NAMED_MAX = 3  # claims that are called by their titles where there are more

TITLES: Mapping[str, str] = {
    "S1": "unique broker ids",
    "S2": "a broker keeps its id",
    "S2b": "controllers know the brokers' addresses",
    "S3": "master epochs never go back",
    "S3b": "controllers answer as one",
    "S4": "SyncStateSet epochs never go back",
    "S5": "one master in an epoch",
    "S6": "no acknowledged message lost",
    "S7": "masters come from the SyncStateSet",
    "S8": "replicas hold the same bytes",
    "S8b": "replicas agree on epochs",
    "S8c": "an epoch begins at one byte",
    "S9": "members of the SyncStateSet hold every message",
    "S9b": "members hold what is confirmed",
    "S10": "no message disappears that was read",
    "S10b": "slaves show only what is confirmed",
    "S11": "an offset keeps its message",
    "S11b": "logs grow only by sends",
    "S12": "a producer's messages keep their order",
    "S13": "queues work after the last heal",
    "S13b": "a silent master is replaced",
    "S13d": "queues work during faults",
    "S14": "healed replicas join again",
    "S14b": "silent members leave the SyncStateSet",
    "S15": "nodes keep running",
    "S16": "a master alone loses nothing",
    "S17": "learners stay out of the SyncStateSet",
    "S18": "no needless election",
    "A1": "a slave acts for a lost master",
    "A2": "only one slave acts",
    "A3": "no slave acts beside its master",
    "A4": "slaves take no messages",
    "A5": "consumers read from the acting slave",
    "A6": "the acting slave serves offsets and locks",
    "A8": "messages are copied before they are acknowledged",
    "A11": "slaves copy again after a fault",
    "A12": "slaves have their master's topics",
    "P1": "no isolated master is listed",
    "P2": "masters come back online",
    "P3": "masters come back despite a cut from a slave",
    "P4": "masters take over their slaves' offsets",
    "P5": "masters keep the offsets that they wrote",
    "P6": "a fail-over keeps copied offsets",
    "P7": "delay progress stays within its queue",
    "P8": "only slaves that copy are listed",
    "N1": "one id for an address",
    "N2": "nobody writes to a set without a master",
    "N3": "routes are what the name server knows",
    "N4": "silent brokers are dropped",
    "N5": "dead brokers are dropped",
    "N6": "running slaves are listed",
    "N7": "brokers are listed again after a reset",
    "N8": "a returned master can be written to",
    "N9": "name servers agree",
    "N10": "masters are listed",
    "N11": "a restarted name server lists who runs",
    "N12": "routes show the acting slave",
    "N13": "no deposed master is listed",
    "B1": "no broker is added twice",
    "B2": "nothing is removed that is not there",
    "B3": "an added broker serves",
    "B4": "a removed broker is gone",
    "B5": "neighbours stay listed",
    "B6": "a failed addition leaves nothing",
    "B7": "containers start with their file's brokers",
    "B8": "brokers of a container return",
    "B9": "a broker keeps to its share of the disk",
    "B10": "no excess deletes a neighbour's files",
    "B11": "a broker's store is its own",
    "B12": "a slave prefers the master beside it",
    "B13": "no message is deleted early",
    "B14": "no broker takes another along",
    "O1": "committed offsets survive a fail-over",
    "E1": "delayed messages are delivered",
    "E2": "no delayed message is early",
    "E3": "delayed messages survive an absent master",
    "E4": "half messages survive an absent master",
    "E5": "no delayed message is delivered again",
    "E6": "committed messages are delivered",
    "E7": "open transactions are settled",
    "E8": "only committed messages are delivered",
    "E9": "committed messages are delivered once",
    "L1": "a lock is granted once in a lease",
    "L2": "a lock has one holder",
    "L3": "one broker grants a lock once in a lease",
    "L4": "a lock has one holder at rest",
    "L6": "locks are granted while a majority runs",
    "L7": "no lock without a majority",
    "L8": "a lock that ran out is granted",
    "L9": "a lock that was given back is granted",
    "L10": "only the lock's holder reads",
}


STATUS_WORDS: Mapping[str, str] = {"no occasion": "not covered"}  # where a file has another word


def status_in_words(status: str) -> str:
    """What a screen calls what became of a claim; files keep the value that they have."""
    return STATUS_WORDS.get(status, status)


def titled(claims: Sequence[str], most: int = NAMED_MAX) -> str:
    """Claims by their titles, each with its number; of many the first ones, and the numbers of
    the others: ``no acknowledged message lost (S6) and 2 more (N1, N2)``."""
    shown = claims if len(claims) <= most else claims[: most - 1]
    texts = [f"{TITLES[claim]} ({claim})" if claim in TITLES else claim for claim in shown]
    left = claims[len(shown) :]
    texts += [f"{len(left)} more ({', '.join(left)})"] if left else []
    return " and ".join([", ".join(texts[:-1]), texts[-1]]) if len(texts) > 1 else "".join(texts)
