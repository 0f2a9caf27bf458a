# SPDX-License-Identifier: MIT
"""The C library for Python, through ctypes: the functions of include/lazyprune/c/lazyprune.h as a few classes. It needs numpy.

    library = Library("liblazyprune.so")
    session = library.session("lazyllm --stages 9:0.7", layers=32)
    for layer in range(session.begin(tokens, outputs=1)):
        plan = session.enter(layer)
        ...  # gather row r from plan.origin[r], plan.index[r]; compute the tokens at plan.rows; attend over the tokens at plan.active
        for row, slot, origin, to in session.leave(plan.wants, data=probabilities):
            ...  # save
    session.finish()

The classes return numpy arrays, which are copies and do not change. They accept C-contiguous arrays of float32 from numpy, array.array or ctypes,
and torch tensors on the CPU. A wrong argument raises an Error that names it.
"""

import ctypes
import dataclasses
import json
import operator
import threading
from ctypes import POINTER, Structure, byref, c_char_p, c_float, c_int32, c_size_t, c_uint32, c_uint64, c_void_p

import numpy as np

PREFILL, DECODE = 0, 1
EMBEDDING, CARRIED, STORED, WAITING = range(4)
NOTHING, ATTENTION, WINDOW, KEYS, VALUES, HIDDEN, IDS, PROBES = range(8)
EACH, MEAN, MAX = range(3)
OPEN, REQUIRED, EXCLUDED = range(3)
LAST = 0  # over the queries of a probe: LAST, MEAN or MAX
EVERYTHING = ctypes.c_size_t(-1).value
ALL_WITH_KEYS = EVERYTHING - 1
CHECK_ATTENTION = 1
BAD_INPUT, WRONG_ORDER, NO_ROOM, NO_MEMORY, UNSUPPORTED, INTERNAL, CALLBACK = range(1, 8)
ABI = 1

SPILL = np.dtype({"names": ["row", "slot", "origin", "to"], "formats": ["u4", "u4", "u1", "u1"], "itemsize": 12})
PROBE = np.dtype([("head", "u4"), ("over_queries", "u4")])
COUNTS = np.dtype([("layer", "u4"), ("chooses", "u4"), ("active", np.uintp), ("finish", np.uintp), ("kept", np.uintp)])
_SOURCE = np.dtype({"names": ["origin", "index"], "formats": ["u1", "u4"], "offsets": [0, 4], "itemsize": 8})


class Error(Exception):
    """A call that failed. `code` is the code of its status, BAD_INPUT to CALLBACK."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def _wrong(place, expected, found):
    return Error(BAD_INPUT, f"{place}: expected {expected}, found {found}")


def _bytes(place, text):
    """Returns the text for C. There it would end at a NUL."""
    if "\0" in text:
        raise _wrong(place, "a text without NUL", repr(text))
    return text.encode()


# ---- the structs of lazyprune.h ----


class Sized(Structure):
    """A struct that begins with its size."""

    def __init__(self, **fields):
        super().__init__(struct_size=ctypes.sizeof(type(self)), **fields)


class _Status(Structure):
    _fields_ = [("code", c_int32), ("reserved", c_uint32), ("message", c_char_p)]


class _Evidence(Sized):
    _fields_ = [
        ("struct_size", c_uint32), ("kind", c_uint32), ("data", c_void_p), ("data_count", c_size_t), ("stride", c_size_t),
        ("heads", c_size_t), ("queries", c_size_t), ("kv_heads", c_size_t), ("head_dim", c_size_t), ("hidden", c_size_t),
        ("values", c_void_p), ("values_count", c_size_t), ("values_stride", c_size_t), ("ids", c_void_p), ("ids_count", c_size_t),
        ("query", c_void_p), ("query_count", c_size_t), ("query_stride", c_size_t), ("keys", c_void_p), ("keys_count", c_size_t),
        ("keys_stride", c_size_t), ("key_slots", c_void_p), ("key_slots_count", c_size_t), ("chosen", c_void_p), ("chosen_count", c_size_t),
        ("chosen_scores", c_void_p),
    ]


class _Shown(Sized):
    _fields_ = [
        ("struct_size", c_uint32), ("done", c_uint32), ("positions", c_void_p), ("active", c_size_t), ("rows", c_void_p),
        ("rows_count", c_size_t), ("evidence", POINTER(_Evidence)), ("memory", c_void_p), ("known", c_size_t), ("message", c_void_p),
        ("message_room", c_size_t),
    ]


_SCORE = ctypes.CFUNCTYPE(c_int32, c_size_t, POINTER(_Shown), c_void_p)
_DESTROY = ctypes.CFUNCTYPE(None, c_size_t)


class _Scorer(Sized):
    _fields_ = [
        ("struct_size", c_uint32), ("wants", c_uint32), ("every_layer", c_uint32), ("window", c_uint32), ("over_heads", c_uint32),
        ("reserved", c_uint32), ("score", _SCORE), ("user", c_size_t), ("destroy", _DESTROY),
    ]


class _Layer(Sized):
    _fields_ = [
        ("struct_size", c_uint32), ("done", c_uint32), ("layers", c_uint32), ("phase", c_uint32), ("active", c_size_t), ("known", c_size_t),
        ("message", c_void_p), ("message_room", c_size_t),
    ]


_KEEP = ctypes.CFUNCTYPE(c_int32, c_size_t, POINTER(_Layer), c_void_p, POINTER(c_size_t))


class _Schedule(Sized):
    _fields_ = [
        ("struct_size", c_uint32), ("sees_scores", c_uint32), ("first", c_uint32), ("reserved", c_uint32), ("keep", _KEEP),
        ("user", c_size_t), ("destroy", _DESTROY), ("after", POINTER(c_uint32)), ("after_count", c_size_t),
    ]


class _SessionOptions(Sized):
    _fields_ = [
        ("struct_size", c_uint32), ("layers", c_uint32), ("max_tokens", c_size_t), ("attention_after", c_void_p),
        ("attention_after_count", c_size_t), ("scratch", c_void_p), ("checks", c_uint32), ("reserved", c_uint32),
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


class _Statistics(Sized):
    _fields_ = [
        ("struct_size", c_uint32), ("layers", c_uint32), ("steps", c_uint64), ("rows", c_uint64), ("dense_rows", c_uint64),
        ("revived", c_uint64), ("prefill_rows", c_void_p), ("prefill_dense_rows", c_void_p),
    ]


class _Request(Sized):
    _fields_ = [("struct_size", c_uint32), ("phase", c_uint32), ("tokens", c_size_t), ("outputs", c_size_t)]


class _Plan(Sized):
    _fields_ = [
        ("struct_size", c_uint32), ("layer", c_uint32), ("active", c_void_p), ("active_count", c_size_t), ("rows", c_void_p),
        ("sources", c_void_p), ("rows_count", c_size_t), ("finish", c_size_t), ("wants", c_uint32), ("window", c_uint32),
        ("over_heads", c_uint32), ("reserved", c_uint32), ("probes", c_void_p), ("probes_count", c_size_t), ("probe_rows", c_size_t),
        ("quota", c_size_t), ("quota_page", c_uint32), ("needs_scores", c_uint32), ("row_is_score", c_uint32), ("stores_dropped", c_uint32),
    ]


class _Spills(Sized):
    _fields_ = [("struct_size", c_uint32), ("margin", c_float), ("items", c_void_p), ("count", c_size_t)]


# ---- arguments and results ----


def _copy(address, count, dtype):
    """Returns a copy of an array of the library."""
    out = np.empty(count, dtype)
    if count:
        ctypes.memmove(out.ctypes.data, address, out.nbytes)
    return out


def _copy_rows(address, rows, width, stride):
    """Returns a copy (rows, width) of rows that begin `stride` numbers apart. Does not read beyond the last row."""
    if rows == 0:
        return np.empty((0, width), np.float32)
    out = np.empty(rows * stride, np.float32)
    ctypes.memmove(out.ctypes.data, address, 4 * ((rows - 1) * stride + width))
    return np.ascontiguousarray(out.reshape(rows, stride)[:, :width])


def _whole(place, value, bits):
    """Returns the value as a whole number. Raises Error if it needs more than `bits` bits, because ctypes would cut off the rest."""
    try:
        number = operator.index(value)
    except TypeError:
        raise _wrong(place, "a whole number", repr(value)) from None
    if not 0 <= number < 1 << bits:
        raise _wrong(place, f"0 to {(1 << bits) - 1}", number)
    return number


_SIZE = 8 * ctypes.sizeof(c_size_t)  # the bits of a size_t


def _wholes(place, values):
    """Converts a sequence of whole numbers to an array of uint32. Raises Error if a number is out of range."""
    array = np.asarray(values)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        raise _wrong(place, "whole numbers in one row", f"{array.dtype} of shape {array.shape}")
    outside = (array < 0) | (array >= 1 << 32) if array.size else array
    if np.any(outside):
        raise _wrong(f"{place}[{int(np.argmax(outside))}]", f"0 to {(1 << 32) - 1}", int(array[np.argmax(outside)]))
    return np.ascontiguousarray(array, np.uint32)


def _floats(place, value):
    """Returns an array's address, its shape, and the object that must live as long as the address is used."""
    if hasattr(value, "data_ptr"):  # a tensor of torch
        device = getattr(value.device, "type", str(value.device))
        if device != "cpu":
            raise _wrong(place, "a tensor on the CPU", f"one on {value.device}: bring it there with .cpu()")
        dtype, contiguous = str(value.dtype).rpartition(".")[2], value.is_contiguous()
        address, shape, how = value.data_ptr(), tuple(value.shape), (".float()", ".contiguous()")
    else:
        if isinstance(value, (list, tuple)):
            raise _wrong(place, "an array of float32", f"a {type(value).__name__}: make it one with numpy.array(..., numpy.float32)")
        try:
            value = np.asarray(value)
        except Exception as fault:
            raise _wrong(place, "an array of float32", f"{type(value).__name__} ({fault})") from fault
        dtype, contiguous = str(value.dtype), value.flags.c_contiguous
        address, shape, how = value.ctypes.data, value.shape, (".astype(numpy.float32)", "numpy.ascontiguousarray")
    if dtype != "float32":
        raise _wrong(place, "an array of float32", f"{dtype}: convert it with {how[0]}")
    if not contiguous:
        raise _wrong(place, "a C-contiguous array", f"one of shape {shape} whose numbers do not lie in that order: copy it with {how[1]}")
    return address, shape, value


_STRIDE = {"data": "stride", "values": "values_stride", "query": "query_stride", "keys": "keys_stride"}


class _Filling:
    """The fields of an _Evidence, made from keyword arguments. Sizes and strides come from the shapes of arrays. For flat arrays, the caller passes
    the sizes and strides."""

    def __init__(self, kind, plan, fields):
        self.kind, self.plan, self.alive = kind, plan, []
        types = dict(_Evidence._fields_)
        self.out = {"kind": _whole("evidence: kind", kind, 32)}
        self.said = {}  # for each size: the array or the argument that set it, for errors
        for name, value in fields.items():
            if name not in types or name in ("struct_size", "kind"):
                raise TypeError(f"expected a field of lazyprune_evidence, found {name}")
            if value is not None and types[name] is not c_void_p:
                self.set(name, _whole(f"evidence: {name}", value, _SIZE), f"{name}={value}")
        for name, value in fields.items():
            if value is not None and types[name] is c_void_p:
                self.array(name, value, fields)
        if "query" in fields and fields["query"] is not None:
            self.out.setdefault("queries", 1)

    def set(self, name, value, source):
        if self.out.get(name, value) != value:
            found = self.out[name]
            note = " (strides count floats, not bytes)" if "stride" in name and found == 4 * value else ""
            raise _wrong(f"evidence: {name}", f"{value} as {source} says", f"{found} in {self.said[name]}{note}")
        self.out[name], self.said[name] = value, source

    def array(self, name, value, fields):
        place = f"evidence: {name}"
        if name in ("ids", "key_slots", "chosen"):
            array = _wholes(place, value)
            self.set(name + "_count", len(array), name)
            self.out[name] = array.ctypes.data if len(array) else None
            self.alive.append(array)
            return
        address, shape, alive = _floats(place, value)
        self.alive.append(alive)
        count = int(np.prod(shape))
        self.out[name] = address if count else None
        if name == "chosen_scores":
            if count != len(self.plan.active):
                raise _wrong(place, f"{len(self.plan.active)}, one for each active token", count)
            return
        self.set(name + "_count", count, name)
        if len(shape) > 1:
            self.shape(name, shape, fields)

    def shape(self, name, shape, fields):
        """Sets the sizes and the stride from the shape of an array with more than one dimension."""
        names = self.dimensions(name, fields)
        known = {"active": len(self.plan.active), "rows": len(self.plan.rows), "probes": len(self.plan.probes)}
        if name == "query" and len(shape) == 2:
            shape = (1, *shape)
        elif names == ("heads", "active") and len(shape) == 3 and shape[0] == 1:
            shape = shape[1:]
        if len(shape) != len(names) or any(known.get(n, size) != size for n, size in zip(names, shape)):
            text = ", ".join(f"{n} {known[n]}" if n in known else n for n in names)
            raise _wrong(f"evidence: {name}", f"an array ({text})", f"one of shape {shape}")
        for dimension, size in zip(names, shape):
            if dimension not in known and dimension != "slots":
                self.set(dimension, size, f"{name} of shape {shape}")
        rows_of_numbers = name == "data" and self.kind != KEYS
        self.set(_STRIDE[name], shape[-1] if rows_of_numbers else shape[-2] * shape[-1], f"{name} of shape {shape}")

    def dimensions(self, name, fields):
        if name == "query":
            return ("queries", "heads", "head_dim")
        if name in ("values", "keys") or self.kind == KEYS:
            return ("slots" if name == "keys" and fields.get("key_slots") is not None else "active", "kv_heads", "head_dim")
        return {WINDOW: ("queries", "heads", "active"), HIDDEN: ("rows", "hidden"), PROBES: ("probes", "active")}.get(
            self.kind, ("heads", "active")
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """The plan of one layer. The arrays are copies, so a plan stays valid after the layer is left."""

    layer: int
    active: np.ndarray  # positions, ascending: the tokens to attend to; each one has keys and values at this layer or is one of `rows`
    rows: np.ndarray  # positions, ascending: the tokens to compute; each attends to the active tokens up to itself
    origin: np.ndarray  # (rows) the memory that has the input of each row: EMBEDDING, CARRIED, STORED or WAITING
    index: np.ndarray  # (rows) the index of the input in that memory
    finish: int  # how many of the last rows need the layer's output: in the last layer the request's outputs, in the others all rows
    wants: int  # the kind of evidence that leave() needs
    window: int  # for WINDOW: the number of queries
    over_heads: int  # for ATTENTION and WINDOW: whether the scorer reads EACH head, their MEAN or their MAX
    probes: np.ndarray  # for PROBES, as PROBE: the heads whose attention the scorer reads, and how it is reduced over the queries; else empty
    probe_rows: int  # for PROBES: the number of queries, which are the last rows
    quota: int = 0  # how many active tokens go on, if the engine may choose them (the field `chosen` of leave); else 0
    quota_page: int = 1  # if there is a quota: 1, or the number of positions in a page; then whole pages go on
    needs_scores: bool = False  # whether a choice must come with `chosen_scores`
    row_is_score: bool = False  # whether a token's score is its number in the evidence, reduced over the heads as `over_heads` says
    stores_dropped: bool = False  # whether each dropped row gets a slot of the aux store. If not, none does, or the store ranks them


@dataclasses.dataclass(frozen=True, eq=False)
class Statistics:
    steps: int
    rows: int
    dense_rows: int
    revived: int
    prefill_rows: np.ndarray  # (layers)
    prefill_dense_rows: np.ndarray  # (layers)


@dataclasses.dataclass(frozen=True, eq=False)
class Shown:
    """The argument of a scorer. All arrays are copies, but changes to `memory` are written back."""

    kind: int
    done: int  # the number of layers done; the last one gave the evidence
    positions: np.ndarray  # (active), ascending; the last one is the query token
    rows: np.ndarray  # HIDDEN: the positions of the rows in `data`
    # ATTENTION, VALUES: (heads, active). WINDOW: (queries, heads, active). KEYS: (active, kv_heads, head_dim). HIDDEN: (rows, hidden)
    data: np.ndarray | None
    values: np.ndarray | None  # VALUES: (active, kv_heads, head_dim)
    ids: np.ndarray | None  # IDS: (known)
    memory: np.ndarray | None  # (known), by position: what a scorer with every_layer remembers of each token; 0 at first
    known: int

    @property
    def active(self):
        return len(self.positions)


def _read_shown(shown):
    n, data, values, ids = shown.active, None, None, None
    e = shown.evidence.contents if shown.evidence else None
    kind = e.kind if e else NOTHING
    if kind in (ATTENTION, VALUES):
        data = _copy_rows(e.data, e.heads, n, e.stride)
    elif kind == WINDOW:
        data = _copy_rows(e.data, e.queries * e.heads, n, e.stride).reshape(e.queries, e.heads, n)
    elif kind == KEYS:
        data = _copy_rows(e.data, n, e.kv_heads * e.head_dim, e.stride).reshape(n, e.kv_heads, e.head_dim)
    elif kind == HIDDEN:
        data = _copy_rows(e.data, shown.rows_count, e.hidden, e.stride)
    if kind == VALUES:
        values = _copy_rows(e.values, n, e.kv_heads * e.head_dim, e.values_stride).reshape(n, e.kv_heads, e.head_dim)
    if kind == IDS:
        ids = _copy(e.ids, e.ids_count, np.uint32)
    memory = _copy(shown.memory, shown.known, np.float32) if shown.memory else None
    rows = _copy(shown.rows, shown.rows_count, np.uint32)
    return Shown(kind, shown.done, _copy(shown.positions, n, np.uint32), rows, data, values, ids, memory, shown.known)


@dataclasses.dataclass(frozen=True)
class Layer:
    """The argument of a schedule."""

    done: int  # the number of layers done; the answer decides which tokens enter layer `done`
    layers: int
    phase: int
    active: int  # how many tokens took part in the layer just done
    known: int


# ---- callbacks ----

_kept_alive = {}  # the callbacks, by the number passed as `user`. The library calls _destroy when it no longer needs one
_numbers = iter(range(1, 1 << 62))
_raised = threading.local()  # the exception of a callback, on its way through the library


@_DESTROY
def _destroy(number, kept=_kept_alive):
    kept.pop(number, None)


# When Python ends, this module may be cleared before the last library or session is freed. So the function and its dictionary stay.
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_destroy))


def _guarded(work, message, room):
    """Runs the work of a callback. Returns the callback's code, and writes the message of an exception to `message`."""
    try:
        work()
        return 0
    except BaseException as fault:
        _raised.fault = fault
        text = f"{type(fault).__name__}: {fault}".encode(errors="replace")[: room - 1] + b"\0"
        ctypes.memmove(message, text, len(text))
        return CALLBACK


# All functions that return a status, with the types of their arguments.
_CALLS = {
    "registry_create": [POINTER(c_void_p)],
    "registry_add_scorer": [c_void_p, c_char_p, POINTER(_Scorer)],
    "registry_add_schedule": [c_void_p, c_char_p, POINTER(_Schedule)],
    "scratch_create": [POINTER(c_void_p)],
    "session_create": [c_void_p, c_char_p, POINTER(_SessionOptions), POINTER(c_void_p)],
    "policy_help": [c_void_p, c_char_p, c_size_t, POINTER(c_size_t)],
    "policy_text": [c_void_p, c_char_p, POINTER(_SessionOptions), c_char_p, c_size_t, POINTER(c_size_t)],
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
    "session_get_statistics": [c_void_p, POINTER(_Statistics)],
    "session_get_losses": [c_void_p, POINTER(c_void_p), POINTER(c_size_t)],
    "step_check": [c_void_p, POINTER(_Request)],
    "step_begin": [c_void_p, POINTER(_Request), POINTER(c_uint32)],
    "step_enter": [c_void_p, c_uint32, POINTER(_Plan)],
    "step_standing": [c_void_p, POINTER(c_uint32), c_size_t],
    "step_counts": [c_void_p, c_void_p, c_size_t, POINTER(c_size_t)],
    "step_slots": [c_void_p, POINTER(c_uint32), c_size_t],
    "step_pages": [c_void_p, c_size_t, POINTER(c_uint32), c_size_t, POINTER(c_size_t)],
    "step_leave": [c_void_p, POINTER(_Evidence), POINTER(_Spills)],
    "step_finish": [c_void_p],
}


class Library:
    """The shared library at a path, and the policies that can be chosen by name."""

    def __init__(self, path):
        self._library, self._registry = ctypes.CDLL(path), c_void_p()
        self._library.lazyprune_abi.restype = c_uint32
        self._library.lazyprune_version.restype = c_char_p
        if self._library.lazyprune_abi() != ABI:
            raise Error(UNSUPPORTED, f"{path}: expected ABI {ABI}, found {self._library.lazyprune_abi()}")
        for name, types in _CALLS.items():
            function = getattr(self._library, "lazyprune_" + name)
            function.argtypes, function.restype = types, _Status
        for name in ("registry_free", "scratch_free", "session_free"):
            function = getattr(self._library, "lazyprune_" + name)
            function.argtypes, function.restype = [c_void_p], None
        self.call("registry_create", byref(self._registry))

    def __del__(self):
        if getattr(self, "_registry", None):
            self._library.lazyprune_registry_free(self._registry)

    @property
    def version(self):
        return self._library.lazyprune_version().decode()

    def call(self, name, *arguments):
        """Calls a function of the library. Raises Error if it fails, or the exception that a callback raised."""
        _raised.fault = None
        status = getattr(self._library, "lazyprune_" + name)(*arguments)
        if not status.code:
            return
        fault, _raised.fault = getattr(_raised, "fault", None), None
        raise fault or Error(status.code, status.message.decode(errors="replace"))

    def free(self, name, handle):
        getattr(self._library, f"lazyprune_{name}_free")(handle)

    def _add(self, kind, name, struct, callback):
        number = next(_numbers)
        _kept_alive[number] = callback
        struct.user, struct.destroy = number, _destroy
        try:
            self.call(f"registry_add_{kind}", self._registry, _bytes(kind, name), byref(struct))
        except BaseException:
            del _kept_alive[number]
            raise

    def add_scorer(self, name, score, wants=ATTENTION, window=0, every_layer=False, over_heads=EACH):
        """Adds a scorer by name. `score(shown)` returns the scores (shown.active): larger is more important. Among equal scores the later token
        is kept, and NaN is the lowest score. If `score` raises an exception, the call that asked for the scores raises
        it too, and drops nothing. Call Session.abandon() then."""

        def scores(_, pointer, out):
            def work():
                shown = _read_shown(pointer.contents)
                found = np.ascontiguousarray(score(shown), np.float32)
                if found.shape != (shown.active,):
                    raise ValueError(f"scorer {name}: expected scores of shape ({shown.active},), found {found.shape}")
                ctypes.memmove(out, found.ctypes.data, found.nbytes)
                if shown.memory is not None:
                    ctypes.memmove(pointer.contents.memory, np.ascontiguousarray(shown.memory, np.float32).ctypes.data, 4 * shown.known)

            return _guarded(work, pointer.contents.message, pointer.contents.message_room)

        callback = _SCORE(scores)
        scorer = _Scorer(
            wants=_whole("scorer: wants", wants, 32), window=_whole("scorer: window", window, 32), every_layer=bool(every_layer),
            over_heads=_whole("scorer: over_heads", over_heads, 32), score=callback,
        )
        self._add("scorer", name, scorer, callback)

    def add_schedule(self, name, keep, first=0, sees_scores=False, after=None):
        """Adds a schedule by name. `keep(layer, scores)` returns how many of the layer's active tokens are kept, or None for all of them. The
        answer must depend on nothing but the arguments, because Session.counts asks for later layers in advance. Exceptions of `keep` are raised
        like those of a scorer.

        `after`: `keep` is called only after these numbers of layers, which ascend. None means that the schedule may prune
        after any number of layers from `first` on. A session never reaches some numbers, and prunes nothing there, without an error: those from
        its number of layers on, and 0 unless the scorer wants NOTHING."""

        def answer(_, pointer, scores, kept):
            def work():
                layer = pointer.contents
                seen = _copy(scores, layer.active, np.float32) if sees_scores else None
                answered = keep(Layer(layer.done, layer.layers, layer.phase, layer.active, layer.known), seen)
                if answered is not None:
                    kept[0] = _whole(f"schedule {name}", answered, _SIZE)

            return _guarded(work, pointer.contents.message, pointer.contents.message_room)

        callback = _KEEP(answer)
        schedule = _Schedule(first=_whole("schedule: first", first, 32), sees_scores=bool(sees_scores), keep=callback)
        if after is not None:
            numbers = [_whole("schedule: after", number, 32) for number in after]
            schedule.after, schedule.after_count = (c_uint32 * len(numbers))(*numbers), len(numbers)
        self._add("schedule", name, schedule, callback)

    def _options(self, layers, max_tokens=0, attention_after=None, scratch=None, checks=0):
        options = _SessionOptions(
            layers=_whole("layers", layers, 32), max_tokens=_whole("max_tokens", max_tokens, _SIZE), scratch=scratch and scratch.handle,
            checks=_whole("checks", checks, 32),
        )
        if attention_after is not None:
            options.alive = _wholes("attention_after", attention_after)
            options.attention_after, options.attention_after_count = options.alive.ctypes.data, len(options.alive)
        return options

    def scratch(self):
        """Returns scratch memory that the sessions of one thread may share."""
        return Scratch(self)

    def session(self, policy, layers, max_tokens=0, attention_after=None, scratch=None, checks=0):
        """Returns a session for one sequence. `policy` is the text of a policy, and `layers` is the model's number of layers. The sequence may have
        at most `max_tokens` tokens; 0 means no limit. Pass CHECK_ATTENTION as `checks` while you develop an engine. The library does not know
        the model. So "lazyllm" without --stages takes the paper's stages."""
        handle = c_void_p()
        options = self._options(layers, max_tokens, attention_after, scratch, checks)
        self.call("session_create", self._registry, _bytes("policy", policy), byref(options), byref(handle))
        return Session(self, handle)

    def _text(self, name, *arguments):
        length = c_size_t()
        self.call(name, self._registry, *arguments, None, 0, byref(length))
        out = ctypes.create_string_buffer(length.value + 1)
        self.call(name, self._registry, *arguments, out, len(out), byref(length))
        return out.value.decode()

    def policy_text(self, policy, layers, attention_after=None):
        """Returns the policy with all its flags written out."""
        return self._text("policy_text", _bytes("policy", policy), byref(self._options(layers, 0, attention_after)))

    def policy_help(self):
        """Returns a list of all presets, scorers, schedules, selectors and stores, with one line for each kind."""
        return self._text("policy_help")


class Scratch:
    """The scratch memory that sessions need to select tokens. The sessions of one thread may share it (Library.scratch)."""

    def __init__(self, library):
        self._library, self.handle = library, c_void_p()
        library.call("scratch_create", byref(self.handle))

    def __del__(self):
        self._library.free("scratch", self.handle)


class Session:
    """The session of one sequence. `margin` says how clear the last selection was (lazyprune_spills)."""

    def __init__(self, library, handle):
        self._library, self._handle, self.margin, self._plan, self._trace = library, handle, float("nan"), None, None

    def __del__(self):
        self._library.free("session", self._handle)

    def _call(self, name, *arguments):
        self._library.call(name, self._handle, *arguments)

    def _get(self, name, out):
        self._call("session_get_" + name, byref(out))
        return out

    def clone(self):
        """Returns a copy that continues independently of this session. The copy is not traced."""
        handle = c_void_p()
        self._call("session_clone", byref(handle))
        return Session(self._library, handle)

    def reserve(self, max_tokens):
        self._call("session_reserve", _whole("max_tokens", max_tokens, _SIZE))

    def reset(self):
        self._call("session_reset")
        self._plan = None
        if self._trace:
            self._trace._new_line()

    def abandon(self):
        """Gives up the step in progress."""
        self._call("session_abandon")
        self._plan = None
        if self._trace:
            self._trace._abandon()

    def truncate(self, tokens):
        """Keeps the first `tokens` tokens and forgets the others, such as rejected drafts. If the steps of the forgotten tokens dropped or
        revived earlier tokens, these tokens stay dropped or revived, and a scorer's memory of them stays. To ask several questions about one text, call clone() before the first
        question."""
        self._call("session_truncate", _whole("tokens", tokens, _SIZE))

    def adopt(self, tokens):
        self._call("session_adopt", _whole("tokens", tokens, _SIZE))

    def take_over(self, other):
        self._call("session_take_over", other._handle)

    def chunk_layers(self, phase=PREFILL):
        layers = c_uint32()
        self._call("session_chunk_layers", _whole("phase", phase, 32), byref(layers))
        return layers.value

    @property
    def state(self):
        return self._get("state", SessionState())

    @property
    def statistics(self):
        s = self._get("statistics", _Statistics())
        return Statistics(
            s.steps, s.rows, s.dense_rows, s.revived, _copy(s.prefill_rows, s.layers, np.uintp), _copy(s.prefill_dense_rows, s.layers, np.uintp)
        )

    def token(self, position):
        out = Token()
        self._call("session_get_token", _whole("position", position, 32), byref(out))
        return out

    @property
    def losses(self):
        positions, count = c_void_p(), c_size_t()
        self._call("session_get_losses", byref(positions), byref(count))
        return _copy(positions, count.value, np.uint32)

    def _request(self, tokens, phase, outputs):
        return _Request(
            tokens=_whole("tokens", tokens, _SIZE), phase=_whole("phase", phase, 32), outputs=_whole("outputs", outputs, _SIZE)
        )

    def check(self, tokens, phase=PREFILL, *, outputs):
        """Raises what begin() would raise, and begins nothing."""
        self._call("step_check", byref(self._request(tokens, phase, outputs)))

    def begin(self, tokens, phase=PREFILL, *, outputs):
        """Begins a step and returns its number of layers. `outputs` is 1 for a whole prompt, for the last piece of a prompt, and for a generated
        token. It is 0 for a chunk, a piece of a prompt that more pieces follow. It is k for a token and k - 1 drafts."""
        layers = c_uint32()
        self._call("step_begin", byref(self._request(tokens, phase, outputs)), byref(layers))
        if self._trace:
            self._trace._begin(tokens)
        return layers.value

    def enter(self, layer):
        p = _Plan()
        self._call("step_enter", _whole("layer", layer, 32), byref(p))
        sources = _copy(p.sources, p.rows_count, _SOURCE)
        self._plan = Plan(
            p.layer, _copy(p.active, p.active_count, np.uint32), _copy(p.rows, p.rows_count, np.uint32),
            np.ascontiguousarray(sources["origin"]), np.ascontiguousarray(sources["index"]), p.finish, p.wants, p.window, p.over_heads,
            _copy(p.probes, p.probes_count, PROBE), p.probe_rows, p.quota, p.quota_page, bool(p.needs_scores), bool(p.row_is_score),
            bool(p.stores_dropped),
        )
        if self._trace:
            self._trace._enter(self._plan)
        return self._plan

    def pages(self, size):
        """Returns the numbers of the pages that have an active token. `size` is the number of positions per page."""
        size, count = _whole("size", size, _SIZE), c_size_t()
        self._call("step_pages", size, None, 0, byref(count))
        out = np.empty(count.value, np.uint32)
        self._call("step_pages", size, out.ctypes.data_as(POINTER(c_uint32)), len(out), byref(count))
        return out

    def standing(self):
        """Returns for each active token of the entered layer whether its score decides (OPEN), whether it stays (REQUIRED), or whether it cannot go
        on (EXCLUDED). Raises Error if the plan has no quota. lazyprune.h has the rules of a choice."""
        out = np.empty(len(self._plan.active) if self._plan else 1, np.uint32)
        self._call("step_standing", out.ctypes.data_as(POINTER(c_uint32)), len(out))
        return out

    def counts(self):
        """Returns the counts of the layers after the entered one that are known before the choice, as an array of COUNTS: layer, chooses, active,
        finish, kept. It is empty if they depend on the choice, or if the plan has no quota. This calls the `keep` of an added schedule."""
        out, count = np.empty(self.state.layers, COUNTS), c_size_t()
        self._call("step_counts", out.ctypes.data, len(out), byref(count))
        return out[: count.value]

    def slots(self, count):
        """Returns the slots of the aux store that the next `count` dropped rows get in the layers of counts()."""
        out = np.empty(_whole("count", count, _SIZE), np.uint32)
        self._call("step_slots", out.ctypes.data_as(POINTER(c_uint32)), len(out))
        return out

    def leave(self, kind=NOTHING, **fields):
        """Leaves the layer. Returns the rows to save, as an array of SPILL: row, slot, origin, to. `row` is an index into plan.rows. If the origin
        is WAITING, `row` is a slot of the waiting rows instead.

        `kind` and `fields` are the evidence. The fields are those of lazyprune_evidence. The shape of `data` is (heads, active) for ATTENTION and
        VALUES, (queries, heads, active) for WINDOW, (active, kv_heads, head_dim) for KEYS, (rows, hidden) for HIDDEN, and (probes, active) for
        PROBES. The shape of `values` and `keys` is (active, kv_heads, head_dim). The shape of `query` is (heads, head_dim) or (queries, heads,
        head_dim). Arrays with these shapes need no other fields. Flat arrays also need the fields `heads`, `stride` and so on. If the plan has a
        quota, the fields `chosen` and `chosen_scores` (active) may take the place of the arrays."""
        if kind == NOTHING:  # evidence is ignored, and the library refuses a choice
            fields = {name: value for name, value in fields.items() if name.startswith("chosen")}
        filling = _Filling(kind, self._plan, fields) if fields and self._plan else None
        evidence, spills = _Evidence(**(filling.out if filling else {"kind": _whole("evidence: kind", kind, 32)})), _Spills()
        self._call("step_leave", byref(evidence), byref(spills))
        self.margin = spills.margin
        if self._trace:
            self._trace._leave(self._plan.layer, spills.margin)
        self._plan = None
        return _copy(spills.items, spills.count, SPILL)

    def finish(self):
        self._call("step_finish")
        if self._trace:
            self._trace._finish()

    def trace(self, file):
        """Starts to record what each step sees and computes, and returns the Trace. Trace.write writes the record to `file`, a path or an open text
        file. If this session is a clone, `file` may be the Trace of the original. That Trace then continues with this session."""
        self._trace = file if isinstance(file, Trace) else Trace(file, self.state.layers)
        return self._trace


class Trace:
    """The trace of a session, in the format that `lazyprune compare` reads (examples/VALIDATING.md), one line per step (Session.trace)."""

    def __init__(self, file, layers):
        self._file, self._own = (file, False) if hasattr(file, "write") else (open(file, "w", encoding="utf-8"), True)
        self._layers, self._steps = layers, 0
        self._new_line()

    def _new_line(self):
        self._done, self._tokens = [], 0
        self._abandon()

    def _abandon(self):
        self._now, self._new = [], 0

    def _begin(self, tokens):
        self._now, self._new = [], operator.index(tokens)

    def _enter(self, plan):
        self._now.append([plan, None])

    def _leave(self, layer, margin):
        self._now[-1][1] = margin if np.isfinite(margin) else None

    def _finish(self):
        self._done += self._now
        self._tokens += self._new
        self._abandon()

    def write(self, tokens, logits=None, next=None):
        """Writes one line for the steps that finished since the last line. These are the chunks of a prompt and the step that answers it, or the
        step of a generated token. `tokens` are the new ids of these steps. `logits` (vocabulary) are the logits of the last token. Without
        logits, pass the id of the `next` token. `lazyprune compare` then cannot see wrong positions or wrong slots."""
        tokens = _wholes("trace: tokens", tokens)
        if len(tokens) != self._tokens or not len(tokens):
            raise _wrong("trace: tokens", f"the ids of the {self._tokens} tokens of the steps that finished since the last line", len(tokens))
        step = {"step": self._steps, "tokens": tokens.tolist(), "layers": []}
        margin = [None] * (self._layers - 1)
        for layer in range(self._layers):
            seen = [plan for plan, _ in self._done if plan.layer == layer]
            union = lambda lists: sorted(set().union(*(positions.tolist() for positions in lists)))
            step["layers"].append({
                "active": union(p.active for p in seen), "rows": union(p.rows for p in seen),
                "revived": union(p.rows[p.origin == STORED] for p in seen),
            })
        for plan, clear in self._done:
            if clear is not None and plan.layer < len(margin):
                margin[plan.layer] = clear
        if logits is not None:
            logits = np.asarray(logits.detach().float().cpu() if hasattr(logits, "detach") else logits).reshape(-1)
            if not np.isfinite(logits).all():
                at = int(np.argmin(np.isfinite(logits)))
                raise _wrong("trace: logits", "finite numbers", f"{logits[at]} at id {at}: a row was read that was never written")
            next = int(np.argmax(logits)) if next is None else next
        step["next"] = _whole("trace: next", next, 32)
        step["margin"] = margin
        if logits is not None:
            step["logits"] = logits.tolist()
        self._file.write(json.dumps(step) + "\n")
        self._steps += 1
        self._new_line()

    def close(self):
        if self._own:
            self._file.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
