# SPDX-License-Identifier: MIT
"""The C library for Python, by ctypes: what include/lazyprune/c/lazyprune.h declares, as a few classes. It needs nothing but Python.

    library = Library("liblazyprune.so")
    session = library.session("lazyllm --stages 9:0.7", layers=32)
    layers = session.begin(tokens)
    for layer in range(layers):
        plan = session.enter(layer)
        ...  # gather plan.sources, compute plan.rows, attend over plan.active
        for row, slot, origin, to in session.leave(plan.wants, data=probabilities, stride=len(plan.active), heads=heads):
            ...  # save
    session.finish()

Arrays are anything with a buffer of the right type (numpy, array.array, ctypes); what the library hands out are ctypes arrays over its own
memory, valid as long as the header says, which numpy reads without a copy (numpy.frombuffer).
"""

import ctypes
import operator
import traceback
from ctypes import POINTER, Structure, byref, c_char_p, c_float, c_int32, c_size_t, c_uint32, c_uint64, c_uint8, c_void_p

PREFILL, DECODE = 0, 1
EMBEDDING, CARRIED, STORED, WAITING = range(4)
NOTHING, ATTENTION, WINDOW, KEYS, VALUES, HIDDEN, IDS = range(7)
EACH, MEAN, MAX = range(3)
EVERYTHING = ctypes.c_size_t(-1).value
ABI = 0


class Error(Exception):
    """A call that failed; `code` is the status's, 1 (bad input) to 6."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class Sized(Structure):
    """A struct that begins with its size."""

    def __init__(self, **fields):
        super().__init__(struct_size=ctypes.sizeof(type(self)), **fields)


class Status(Structure):
    _fields_ = [("code", c_int32), ("message", c_char_p)]


class Source(Structure):
    _fields_ = [("origin", c_uint8), ("index", c_uint32)]


class Spill(Structure):
    _fields_ = [("row", c_uint32), ("slot", c_uint32), ("origin", c_uint8), ("to", c_uint8)]

    def __iter__(self):
        return iter((self.row, self.slot, self.origin, self.to))


class Evidence(Sized):
    _fields_ = [
        ("struct_size", c_uint32), ("kind", c_uint32), ("data", POINTER(c_float)), ("stride", c_size_t), ("heads", c_size_t),
        ("queries", c_size_t), ("kv_heads", c_size_t), ("head_dim", c_size_t), ("hidden", c_size_t), ("values", POINTER(c_float)),
        ("values_stride", c_size_t), ("ids", POINTER(c_uint32)), ("ids_count", c_size_t), ("query", POINTER(c_float)),
        ("query_stride", c_size_t), ("keys", POINTER(c_float)), ("keys_stride", c_size_t), ("key_slots", POINTER(c_uint32)),
    ]


class Shown(Sized):
    _fields_ = [
        ("struct_size", c_uint32), ("done", c_uint32), ("positions", POINTER(c_uint32)), ("active", c_size_t), ("rows", POINTER(c_uint32)),
        ("rows_count", c_size_t), ("evidence", POINTER(Evidence)), ("memory", POINTER(c_float)), ("known", c_size_t),
    ]


SCORE = ctypes.CFUNCTYPE(None, c_void_p, POINTER(Shown), POINTER(c_float))


class Scorer(Sized):
    _fields_ = [
        ("struct_size", c_uint32), ("wants", c_uint32), ("every_layer", c_uint32), ("window", c_uint32), ("score", SCORE), ("user", c_void_p),
        ("over_heads", c_uint32), ("reserved", c_uint32),
    ]


class Layer(Sized):
    _fields_ = [
        ("struct_size", c_uint32), ("done", c_uint32), ("layers", c_uint32), ("phase", c_uint32), ("active", c_size_t), ("known", c_size_t),
    ]


KEEP = ctypes.CFUNCTYPE(c_size_t, c_void_p, POINTER(Layer), POINTER(c_float))


class Schedule(Sized):
    _fields_ = [
        ("struct_size", c_uint32), ("sees_scores", c_uint32), ("first", c_uint32), ("reserved", c_uint32), ("keep", KEEP), ("user", c_void_p),
    ]


class SessionOptions(Sized):
    _fields_ = [
        ("struct_size", c_uint32), ("layers", c_uint32), ("max_tokens", c_size_t), ("attention_after", POINTER(c_uint32)),
        ("attention_after_count", c_size_t), ("scratch", c_void_p),
    ]


class SessionState(Sized):
    _fields_ = [
        ("struct_size", c_uint32), ("layers", c_uint32), ("known", c_size_t), ("slots", c_size_t), ("stored", c_size_t),
        ("waiting_slots", c_size_t), ("waiting", c_size_t), ("lost", c_size_t),
    ]


class Token(Sized):
    _fields_ = [
        ("struct_size", c_uint32), ("frontier", c_uint32), ("place", c_uint32), ("slot", c_uint32), ("lost", c_uint32), ("gone", c_uint32),
        ("score", c_float), ("reserved", c_uint32),
    ]


class Statistics(Sized):
    _fields_ = [
        ("struct_size", c_uint32), ("layers", c_uint32), ("steps", c_uint64), ("rows", c_uint64), ("dense_rows", c_uint64),
        ("revived", c_uint64), ("prefill_rows", POINTER(c_size_t)), ("prefill_dense_rows", POINTER(c_size_t)),
    ]


class Request(Sized):
    _fields_ = [("struct_size", c_uint32), ("phase", c_uint32), ("tokens", c_size_t), ("outputs", c_size_t)]


class Plan(Sized):
    _fields_ = [
        ("struct_size", c_uint32), ("layer", c_uint32), ("active_data", POINTER(c_uint32)), ("active_count", c_size_t),
        ("rows_data", POINTER(c_uint32)), ("sources_data", POINTER(Source)), ("rows_count", c_size_t), ("finish", c_size_t),
        ("wants", c_uint32), ("window", c_uint32), ("over_heads", c_uint32), ("reserved", c_uint32),
    ]

    @property
    def active(self):
        return _array(self.active_data, self.active_count)

    @property
    def rows(self):
        return _array(self.rows_data, self.rows_count)

    @property
    def sources(self):
        return _array(self.sources_data, self.rows_count)


class Spills(Sized):
    _fields_ = [("struct_size", c_uint32), ("margin", c_float), ("items", POINTER(Spill)), ("count", c_size_t)]


def _array(pointer, count):
    """A ctypes array over memory of the library."""
    kind = pointer._type_ * count
    return kind.from_address(ctypes.addressof(pointer.contents)) if count else kind()


def _pointer(array, kind):
    """A pointer into an array with a buffer, and what has to live as long as it is used; one that is read-only is copied."""
    view = memoryview(array)
    formats = "f" if kind is c_float else "IL"
    if view.itemsize != ctypes.sizeof(kind) or view.format.lstrip("<=@") not in formats or not view.c_contiguous:
        raise TypeError(f"expected a contiguous array of {kind.__name__}, found format {view.format!r}")
    if view.nbytes == 0:
        return None, None
    memory = (c_uint8 * view.nbytes).from_buffer_copy(view) if view.readonly else (c_uint8 * view.nbytes).from_buffer(view)
    return ctypes.cast(memory, POINTER(kind)), memory


# Every function that returns a status, with the types of its arguments.
_CALLS = {
    "registry_create": [POINTER(c_void_p)],
    "registry_add_scorer": [c_void_p, c_char_p, POINTER(Scorer)],
    "registry_add_schedule": [c_void_p, c_char_p, POINTER(Schedule)],
    "scratch_create": [POINTER(c_void_p)],
    "session_create": [c_void_p, c_char_p, POINTER(SessionOptions), POINTER(c_void_p)],
    "policy_help": [c_void_p, c_char_p, c_size_t, POINTER(c_size_t)],
    "policy_text": [c_void_p, c_char_p, POINTER(SessionOptions), c_char_p, c_size_t, POINTER(c_size_t)],
    "session_clone": [c_void_p, POINTER(c_void_p)],
    "session_reserve": [c_void_p, c_size_t],
    "session_reset": [c_void_p],
    "session_abandon": [c_void_p],
    "session_truncate": [c_void_p, c_size_t],
    "session_adopt": [c_void_p, c_size_t],
    "session_take_over": [c_void_p, c_void_p],
    "session_chunk_layers": [c_void_p, c_uint32, POINTER(c_uint32)],
    "session_get_state": [c_void_p, POINTER(SessionState)],
    "session_get_token": [c_void_p, c_uint32, POINTER(Token)],
    "session_get_statistics": [c_void_p, POINTER(Statistics)],
    "session_get_losses": [c_void_p, POINTER(POINTER(c_uint32)), POINTER(c_size_t)],
    "step_check": [c_void_p, POINTER(Request)],
    "step_begin": [c_void_p, POINTER(Request), POINTER(c_uint32)],
    "step_enter": [c_void_p, c_uint32, POINTER(Plan)],
    "step_pages": [c_void_p, c_size_t, POINTER(c_uint32), c_size_t, POINTER(c_size_t)],
    "step_leave": [c_void_p, POINTER(Evidence), POINTER(Spills)],
    "step_finish": [c_void_p],
}


class Library:
    """The shared library at a path; it knows the policies that are chosen by name."""

    def __init__(self, path):
        self._library, self._interrupt = ctypes.CDLL(path), None
        self._library.lazyprune_abi.restype = c_uint32
        self._library.lazyprune_version.restype = c_char_p
        if self._library.lazyprune_abi() != ABI:
            raise Error(5, f"{path}: expected ABI {ABI}, found {self._library.lazyprune_abi()}")
        for name, types in _CALLS.items():
            function = getattr(self._library, "lazyprune_" + name)
            function.argtypes, function.restype = types, Status
        for name in ("registry_free", "scratch_free", "session_free"):
            function = getattr(self._library, "lazyprune_" + name)
            function.argtypes, function.restype = [c_void_p], None
        self._callbacks = []  # which the library calls as long as it has sessions
        self._registry = c_void_p()
        self.call("registry_create", byref(self._registry))

    def __del__(self):
        if getattr(self, "_registry", None):
            self._library.lazyprune_registry_free(self._registry)

    @property
    def version(self):
        return self._library.lazyprune_version().decode()

    def call(self, name, *arguments):
        status = getattr(self._library, "lazyprune_" + name)(*arguments)
        interrupt, self._interrupt = self._interrupt, None
        if interrupt:
            raise interrupt
        if status.code:
            raise Error(status.code, status.message.decode(errors="replace"))

    def _failed(self, fault):
        """In a callback, out of which nothing can be raised."""
        if isinstance(fault, Exception):
            traceback.print_exc()
        else:
            self._interrupt = fault

    def free(self, name, handle):
        getattr(self._library, f"lazyprune_{name}_free")(handle)

    def add_scorer(self, name, score, wants=ATTENTION, window=0, every_layer=False, over_heads=EACH):
        """`score(shown, scores)` writes the scores (shown.active), which are 0 before; larger is more important. An exception in it is
        printed, and all scores are then 0; the call that asked for them raises what is no Exception (KeyboardInterrupt)."""

        def scores(_, shown, out):
            here = _array(out, shown.contents.active)
            ctypes.memset(here, 0, ctypes.sizeof(here))
            try:
                score(shown.contents, here)
            except BaseException as fault:
                ctypes.memset(here, 0, ctypes.sizeof(here))
                self._failed(fault)

        callback = SCORE(scores)
        self._callbacks.append(callback)
        scorer = Scorer(wants=wants, window=window, every_layer=every_layer, score=callback, over_heads=over_heads)
        self.call("registry_add_scorer", self._registry, name.encode(), byref(scorer))

    def add_schedule(self, name, keep, first=0, sees_scores=False):
        """`keep(layer, scores)` answers how many tokens go on, None for all of them. An exception in it is printed, and none is dropped; the
        call that asked raises what is no Exception (KeyboardInterrupt)."""

        def answer(_, layer, scores):
            try:
                kept = keep(layer.contents, _array(scores, layer.contents.active) if sees_scores else None)
                return EVERYTHING if kept is None else max(operator.index(kept), 0)
            except BaseException as fault:
                self._failed(fault)
                return EVERYTHING

        callback = KEEP(answer)
        self._callbacks.append(callback)
        schedule = Schedule(first=first, sees_scores=sees_scores, keep=callback)
        self.call("registry_add_schedule", self._registry, name.encode(), byref(schedule))

    def _options(self, layers, max_tokens=0, attention_after=None, scratch=None):
        options = SessionOptions(layers=layers, max_tokens=max_tokens, scratch=scratch and scratch.handle)
        if attention_after is not None:
            options.attention_after = (c_uint32 * len(attention_after))(*attention_after)
            options.attention_after_count = len(attention_after)
        return options

    def scratch(self):
        """What the sessions of one thread may share."""
        return Scratch(self)

    def session(self, policy, layers, max_tokens=0, attention_after=None, scratch=None):
        """A session under the policy of that text, for a model of so many layers."""
        handle = c_void_p()
        options = self._options(layers, max_tokens, attention_after, scratch)
        self.call("session_create", self._registry, policy.encode(), byref(options), byref(handle))
        return Session(self, handle)

    def _text(self, name, *arguments):
        length = c_size_t()
        self.call(name, self._registry, *arguments, None, 0, byref(length))
        out = ctypes.create_string_buffer(length.value + 1)
        self.call(name, self._registry, *arguments, out, len(out), byref(length))
        return out.value.decode()

    def policy_text(self, policy, layers, attention_after=None):
        """All flags of the policy, written out."""
        return self._text("policy_text", policy.encode(), byref(self._options(layers, 0, attention_after)))

    def policy_help(self):
        """The presets, scorers, schedules, selectors and stores that there are, a kind a line."""
        return self._text("policy_help")


class Scratch:
    """Selection's scratch, for the sessions of one thread (Library.scratch)."""

    def __init__(self, library):
        self._library, self.handle = library, c_void_p()
        library.call("scratch_create", byref(self.handle))

    def __del__(self):
        self._library.free("scratch", self.handle)


class Session:
    """One sequence's session; its calls raise Error. `margin`: how clear the last selection was (lazyprune_spills)."""

    def __init__(self, library, handle):
        self._library, self._handle, self.margin = library, handle, float("nan")

    def __del__(self):
        self._library.free("session", self._handle)

    def _call(self, name, *arguments):
        self._library.call(name, self._handle, *arguments)

    def _get(self, name, out):
        self._call("session_get_" + name, byref(out))
        return out

    def clone(self):
        handle = c_void_p()
        self._call("session_clone", byref(handle))
        return Session(self._library, handle)

    def reserve(self, max_tokens):
        self._call("session_reserve", max_tokens)

    def reset(self):
        self._call("session_reset")

    def abandon(self):
        self._call("session_abandon")

    def truncate(self, tokens):
        self._call("session_truncate", tokens)

    def adopt(self, tokens):
        self._call("session_adopt", tokens)

    def take_over(self, other):
        self._call("session_take_over", other._handle)

    def chunk_layers(self, phase=PREFILL):
        layers = c_uint32()
        self._call("session_chunk_layers", phase, byref(layers))
        return layers.value

    @property
    def state(self):
        return self._get("state", SessionState())

    @property
    def statistics(self):
        return self._get("statistics", Statistics())

    def token(self, position):
        out = Token()
        self._call("session_get_token", position, byref(out))
        return out

    @property
    def losses(self):
        positions, count = POINTER(c_uint32)(), c_size_t()
        self._call("session_get_losses", byref(positions), byref(count))
        return list(positions[: count.value])

    def check(self, tokens, phase=PREFILL, outputs=1):
        """Raises what begin would."""
        self._call("step_check", byref(Request(tokens=tokens, phase=phase, outputs=outputs)))

    def begin(self, tokens, phase=PREFILL, outputs=1):
        """The layers of the step."""
        layers = c_uint32()
        self._call("step_begin", byref(Request(tokens=tokens, phase=phase, outputs=outputs)), byref(layers))
        return layers.value

    def enter(self, layer):
        plan = Plan()
        self._call("step_enter", layer, byref(plan))
        return plan

    def pages(self, size):
        count = c_size_t()
        self._call("step_pages", size, None, 0, byref(count))
        out = (c_uint32 * count.value)()
        self._call("step_pages", size, out, len(out), byref(count))
        return list(out)

    def leave(self, kind=NOTHING, **fields):
        """The rows to save: an array of (row, slot, origin, to), valid until the next enter. The evidence is of that kind; its fields are the
        struct's, arrays among them."""
        types, alive = dict(Evidence._fields_), []
        evidence = Evidence(kind=kind)
        for name, value in fields.items():
            if name not in types:
                raise TypeError(f"expected a field of Evidence, found {name}")
            if value is not None and hasattr(types[name], "contents"):
                value, memory = _pointer(value, types[name]._type_)
                alive.append(memory)
            setattr(evidence, name, value)
        spills = Spills()
        self._call("step_leave", byref(evidence), byref(spills))
        self.margin = spills.margin
        return _array(spills.items, spills.count)

    def finish(self):
        self._call("step_finish")
