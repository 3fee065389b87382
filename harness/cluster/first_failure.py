"""Why a node did not start, from its log: its first exception, and the keys behind it where known.

Pure. Of a JVM's log only: what our own nodes say last is their reason.
"""

import re

# The keys behind what a node says when it does not start, by a part of that.
BEHIND = {
    "direct buffer memory": "transientStorePoolEnable, transientStorePoolSize, "
    "mappedFileSizeCommitLog",
    "Java heap space": "thread pools and queues",
    "unable to create native thread": "*ThreadPoolNums",
    "Address already in use": "listenPort, haListenPort, fastListenPort",
    "No enum constant": "brokerRole, flushDiskType",
    "For input string": "a key that takes a number",
    "No space left on device": "storePathRootDir",
}
_THROWN = re.compile(
    r'^(?:Exception in thread "(?P<thread>[^"]*)" |Caused by: )?'
    r"(?P<what>(?:[a-z]\w*\.)+[A-Z]\w*(?:Error|Exception)\b(?:: [^\n]*)?)",
    re.MULTILINE,
)
TEXT_MAX = 200


def first_failure(log: str) -> str:
    """Class and message of the exception for which a node did not start, and the keys behind it;
    empty: there is none.

    Of several the first one that names a known reason; else the main thread's; else the first.
    """
    thrown = list(_THROWN.finditer(log))
    if not thrown:
        return ""

    def grade(match: re.Match[str]) -> int:
        return 0 if behind(match["what"]) else 1 if match["thread"] == "main" else 2

    what = min(thrown, key=grade)["what"]
    keys = behind(what)
    return f"{what[:TEXT_MAX].rstrip()}{f' (see {keys})' if keys else ''}"


def behind(what: str) -> str:
    """The keys behind an exception; empty: unknown."""
    return next((keys for part, keys in BEHIND.items() if part in what), "")
