"""What a model is: how an object answers when nobody else uses it.

A history is linearizable if every call can be given one instant between its begin and its end so
that, in the order of these instants, each answer is the one that the model gives. A model says
three things: what an operation was (`read`), in which state the object begins (`initial`), and
which states may follow when a call takes effect (`step`). Everything else has a default.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from maxq.checkers.linearizability.decided import Decided
from maxq.checkers.linearizability.ties import Ties, by_values
from maxq.histories.op import Op

if TYPE_CHECKING:  # numpy, for those who judge
    from maxq.checkers.linearizability.calls import Call, Calls, Row

State = Hashable
ANYTHING = "anything"  # what a call wants that wants some change, whichever
SHOWN_FIRST = object()  # a first value: what calls were shown first that nobody wrote


class Client(NamedTuple):
    """Who asks, when histories are made up: a process, `below` n (a number that is drawn), and the
    next `value` to write."""

    process: int
    below: Callable[[int], int]
    value: Callable[[], Any]


class Drawn(NamedTuple):
    """An operation that is made up: its name, what is asked, and what is answered; whether it
    fails. One that must be `sure` has no effect where its answer is lost: nobody could go on."""

    f: str
    value: Any = None
    answer: Any = None
    fails: bool = False
    sure: bool = False
    ext: Mapping[str, Any] = {}


class Model(ABC):
    """The base of all models; a model of one's own overrides `read`, `initial` and `step`.

    `name` is that of ``--model``; `about` says in a line what it promises. `reads` are the kinds of
    calls that never change the state: they cost the search nothing. `blind` are those whose answer
    is right in every state: where nothing else succeeded, nothing was tested. `synonyms` are names
    that people give the model's operations. `by_key` says that each key of an operation is an
    object of its own; `asks` which operations have a value to ask for, `harmless` which others of
    the model's tests change nothing.
    """

    name: str = ""
    about: str = ""
    are: str = "linearizable as"  # what calls are that keep to it: "3 calls are ... register"
    reads: Collection[str] = ()
    blind: Collection[str] = ()
    synonyms: Mapping[str, str] = {}
    by_key: bool = False
    asks: Collection[str] = ()
    harmless: Collection[str] = ()
    initial: State = None

    @abstractmethod
    def read(self, begun: Op, ended: Op | None) -> Iterable["Row"]:
        """The calls of an operation.

        Args:
            begun: its invocation.
            ended: its completion; None while there is none. Where it failed, only what shows that
                it failed may be read out of it.

        Raises:
            HistoryError: its value has not the model's shape.
        """

    @abstractmethod
    def step(self, state: State, call: "Call") -> Iterable[State]:
        """The states that may follow if a call takes effect now; none: its answer is impossible.
        Of a call without an answer, `result` is None and any answer will do."""

    def begun_with(self, initial: Any, calls: "Calls") -> "Model":
        """The model of an object that begins with a value; None: as it is; SHOWN_FIRST:
        as what its calls show.

        Raises:
            ValueError: its objects begin with nothing else.
        """
        if initial is None:
            return self
        raise ValueError(f"--initial is for registers: a {self.name} has no other first value")

    def observes_failure(self, call: "Call") -> bool:
        """Whether a call that failed shows something of the state, as a compare-and-set that was
        refused does. `step` gets it with the outcome FAILED then; others are left out."""
        return False

    def gives(self, call: "Call") -> Hashable:
        """What a call brings about that another one may want; None: it cannot be said, and the
        search tries it at any time. Only asked of calls without an answer."""
        return None

    def wants(self, call: "Call") -> Hashable:
        """What must have been brought about for a call; None: nothing; ANYTHING: it may be any
        change, as for a compare-and-set that was refused."""
        return None

    def brings(self, call: "Call") -> Iterable[Hashable]:
        """The values that others may see because of a call that changes the state."""
        return [value for value in (call.argument, call.other) if value is not None]

    def shows(self, call: "Call") -> Iterable[Hashable]:
        """The values that the answer of a call shows."""
        result = call.result
        inside = result if isinstance(result, tuple | frozenset) else ()
        return [] if result is None else [result, *inside]

    def ties(self, calls: "Calls") -> Ties:
        """Which calls of a key can be taken out of it, so that what is left can be blamed for
        nothing that the whole was not to blame for. By default by `brings` and `shows`."""
        return by_values(self, calls)

    def ask(self, state: State, client: Client) -> Drawn | None:
        """What a client may ask of an object in a state, and the right answer, for histories that
        are made up (``maxq generate-history --model``); None: of this model none are."""
        return None

    def of_parts(self, found: Decided) -> "Model":
        """The model that parts of a key are judged by, from which calls were taken out, and by
        whose ties: where it calls one illegal, so does this model, whatever else was there.
        `found` is what was found in the whole."""
        return self

    def within(self, calls: "Calls") -> "Model":
        """A model that says the same of these calls, with fewer states, for the search."""
        return self

    def fast(self, calls: "Calls") -> Decided | None:
        """Decide one key without a search; None: not mine, search."""
        return None
