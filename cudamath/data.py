"""`cudamath.data`: batches of training data, made ready in the background; texts as tokens.

    loader = cm.data.batches((images, labels), 64, shuffle=True, seed=0)
    for epoch in range(20):
        for x, y in loader:
            loss = step(x, y)

A thread gathers the rows of the next batches from NumPy arrays, or from files mapped into memory,
into page-locked buffers and copies them to the GPU on a stream of its own, while the GPU computes
on the batch before. The order is a function of the seed and the epoch alone, so two integers say
where a run is: save `loader.state` with the parameters, and it goes on with the same batches.
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .core import dtypes, trees
from .core.array import allocate, ndarray, wrap
from .core.devices import CPU, device_of, index_of
from .core.dispatch.keyword_hints import with_hints
from .core.layout import Layout
from .core.public_names import public_dir
from .core.typing import ArrayLike, DeviceLike, DTypeLike, Tree
from .cuda.memory import pinned
from .numpy_files import map_array, path_of
from .ops.random.module import default_rng
from .runtime import memory
from .runtime import stream as streams
from .runtime.files import naming, require_regular

__all__ = ["Batches", "ByteTokenizer", "CharTokenizer", "Tokens", "batches", "tokens"]

__dir__ = public_dir(__name__)

Rows = slice | np.ndarray  # which rows a batch has: neighbours, or numbers of rows


def _whole(name: str, what: str, value: Any, least: int) -> int:
    """A whole number, also NumPy's."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}: wants {what} as an integer >= {least}, got {value!r}")
    return int(value)


class _Part(NamedTuple):
    """One array of a batch: the shape of a row, the dtype, and what writes the chosen rows into an
    array."""

    shape: tuple[int, ...]
    dtype: np.dtype
    fill: Callable[[Rows, np.ndarray], None]


def _array_part(x: np.ndarray) -> _Part:
    dtype = x.dtype.newbyteorder("=")  # a file's may be the other one: a batch is of this machine's

    def fill(rows: Rows, out: np.ndarray) -> None:
        if isinstance(rows, slice) or x.dtype != dtype:
            out[...] = x[rows]
        else:
            np.take(x, rows, axis=0, out=out, mode="clip")  # another mode would buffer `out`

    return _Part(x.shape[1:], dtype, fill)


# -------------------- tokens


class Tokens:
    """A long sequence of tokens, seen as rows of inputs and targets. Made by `tokens`.

    The rows have `length` tokens, begin `step` tokens apart, and come with the tokens that follow.

    Parameters
    ----------
    sequence : numpy.ndarray
        The tokens.
    length : int
        Number of tokens of a row.
    step : int
        Distance between two rows.
    """

    def __init__(self, sequence: np.ndarray, length: int, step: int):
        self.sequence, self.length, self.step = sequence, length, step

    def __len__(self) -> int:
        return (self.sequence.size - 1 - self.length) // self.step + 1

    def parts(self) -> list[_Part]:
        """Return the inputs, and the targets one token further.

        Returns
        -------
        list of _Part
            Inputs and targets.
        """

        def filling(ahead: int) -> Callable[[Rows, np.ndarray], None]:
            def fill(rows: Rows, out: np.ndarray) -> None:
                numbers = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
                out[...] = self.sequence[
                    numbers[:, None] * self.step + np.arange(ahead, self.length + ahead)
                ]

            return fill

        return [_Part((self.length,), np.dtype(np.int32), filling(ahead)) for ahead in (0, 1)]


def tokens(
    source: str | os.PathLike[str] | np.ndarray,
    length: int,
    *,
    step: int | None = None,
    dtype: DTypeLike = "uint16",
) -> Tokens:
    """Arrange a sequence of tokens as rows for `batches`.

    Row i is (inputs, targets): the tokens from i step on, and the same one token further.

    By default every token but the first is the target of exactly one row, up to an end shorter than
    a row.

    Parameters
    ----------
    source : path or array (n,) of integers
        A file is mapped into memory, not read: a ".npy" file, or else a file of nothing but tokens,
        each a `dtype`.
    length : int
        Of a row.
    step : int, optional
        From the beginning of a row to that of the next; by default `length`. With a smaller one
        rows overlap: a short text is seen from more places, and an epoch is longer.
    dtype : dtype, default "uint16"
        Of the tokens in a file that does not say it.

    Returns
    -------
    Tokens
        `len` of it is the number of rows, (n - 1 - length) // step + 1. In a batch it is a pair of
        int32 arrays (size, length).

    Raises
    ------
    OSError
        The file cannot be read.
    TypeError
        No integers.
    ValueError
        The file is damaged; not one dimension, fewer than length + 1 tokens, or a length or step
        below 1.

    Examples
    --------
    >>> import cudamath as cm, numpy as np
    >>> rows = cm.data.tokens(np.arange(10), 3)
    >>> x, y = next(iter(cm.data.batches(rows, 2)))
    >>> len(rows), x.tolist(), y.tolist()
    (3, [[0, 1, 2], [3, 4, 5]], [[1, 2, 3], [4, 5, 6]])
    """
    if isinstance(source, np.ndarray):
        sequence = source
    elif path_of("tokens", source).endswith(".npy"):
        sequence = map_array("tokens", source)
    else:
        with naming("tokens", source, "read"):
            about = os.stat(source)
            require_regular(about.st_mode)
        size, width = about.st_size, np.dtype(dtype).itemsize
        if not size or size % width:
            raise ValueError(
                f"tokens: wants a file of whole tokens of {np.dtype(dtype)}, got {size} bytes of "
                f"{os.fspath(source)!r}"
            )
        with naming("tokens", source, "read"):
            sequence = np.memmap(source, dtype, mode="r")
    if sequence.dtype.kind not in "iu":
        raise TypeError(f"tokens: wants integers, got {sequence.dtype} of shape {sequence.shape}")
    length = _whole("tokens", "length", length, 1)
    step = length if step is None else _whole("tokens", "step", step, 1)
    if sequence.ndim != 1 or sequence.size <= length:
        raise ValueError(
            f"tokens: wants one dimension of more than length={length} tokens, got shape "
            f"{sequence.shape}"
        )
    return Tokens(sequence, length, step)


class CharTokenizer:
    """Tokenizer of the characters of a text.

    The characters are numbered by their place in the sorted list of those that occur.

    Parameters
    ----------
    text : str
        What may occur. `CharTokenizer(tokenizer.characters)` makes the same one again.

    Attributes
    ----------
    characters : str
        One of each, in the order of their tokens.

    Examples
    --------
    >>> import cudamath as cm
    >>> tokenizer = cm.data.CharTokenizer("hello")
    >>> tokenizer.characters, tokenizer.encode("hole").tolist(), tokenizer.decode([1, 0])
    ('ehlo', [1, 3, 2, 0], 'he')
    """

    def __init__(self, text: str):
        self._codes = np.unique(_codes(text))
        self.characters = _text(self._codes)
        if not self.characters:
            raise ValueError("CharTokenizer: wants a text of at least one character")

    def __len__(self) -> int:
        return len(self.characters)

    def encode(self, text: str) -> np.ndarray:
        """Return the tokens of a text.

        ValueError for a character that is none of `characters`.

        Parameters
        ----------
        text : str
            Text.

        Returns
        -------
        numpy.ndarray
            Tokens (n,), int32.

        Raises
        ------
        ValueError
            A character is not one of `characters`.
        """
        codes = _codes(text)
        found = np.minimum(np.searchsorted(self._codes, codes), len(self) - 1)
        if (self._codes[found] != codes).any():
            strange = _text(np.unique(codes[self._codes[found] != codes]))
            raise ValueError(
                f"CharTokenizer: {strange[:20]!r} not among the {len(self)} characters it knows"
            )
        return found.astype(np.int32)

    def decode(self, tokens: ArrayLike) -> str:
        """Return the text of some tokens.

        Parameters
        ----------
        tokens : array_like
            Integers (n,) of any library.

        Returns
        -------
        str
            The text.

        Raises
        ------
        ValueError
            An integer is not a token.
        """
        return _text(self._codes[_known("CharTokenizer", tokens, len(self))])


class ByteTokenizer:
    """Tokenizer of the bytes of the UTF-8 encoding of a text.

    256 tokens cover any text.

    Examples
    --------
    >>> import cudamath as cm
    >>> tokenizer = cm.data.ByteTokenizer()
    >>> tokenizer.encode("hé").tolist(), tokenizer.decode([104, 195, 169])
    ([104, 195, 169], 'hé')
    """

    def __len__(self) -> int:
        return 256

    def encode(self, text: str) -> np.ndarray:
        """Return the tokens of a text.

        Parameters
        ----------
        text : str
            Text.

        Returns
        -------
        numpy.ndarray
            Tokens (n,), int32.
        """
        _is_text("ByteTokenizer", text)
        return np.frombuffer(text.encode(), np.uint8).astype(np.int32)

    def decode(self, tokens: ArrayLike) -> str:
        """Return the text of some tokens.

        Bytes that are not UTF-8 become the replacement character.

        Parameters
        ----------
        tokens : array_like
            Integers (n,) below 256.

        Returns
        -------
        str
            The text.
        """
        return (
            _known("ByteTokenizer", tokens, 256).astype(np.uint8).tobytes().decode(errors="replace")
        )


def _known(name: str, tokens: Any, count: int) -> np.ndarray:
    """Tokens as an array of integers below `count`."""
    found = np.asarray(tokens)
    if found.size and found.dtype.kind not in "iu":
        raise TypeError(
            f"{name}: wants tokens as integers, got {found.dtype} of shape {found.shape}"
        )
    if found.size and not (found.min() >= 0 and found.max() < count):
        raise ValueError(
            f"{name}: wants tokens in [0, {count}), got {found.min()} to {found.max()}"
        )
    return found.astype(np.int64)


def _is_text(name: str, text: Any) -> None:
    """TypeError for what is no text."""
    if not isinstance(text, str):
        raise TypeError(f"{name}: wants a text, got {type(text).__name__} {text!r:.60}")


def _codes(text: str) -> np.ndarray:
    """Characters as numbers, uint32."""
    _is_text("CharTokenizer", text)
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")


def _text(codes: np.ndarray) -> str:
    return codes.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")


# -------------------- batches


class _Maker:
    """Makes batches: gathers the rows and brings them to a device. Used by one thread at a time."""

    def __init__(self, parts: list[_Part], device: int, slots: int):
        self.parts, self.device = parts, device
        self.slots: list[tuple[list[np.ndarray], streams.Event] | None] = [
            None
        ] * slots  # page-locked buffers in turn
        self.count = 0
        self.stream = streams.Stream(device) if device != CPU else None

    def make(self, rows: Rows, count: int, size: int) -> tuple[list[ndarray], streams.Event | None]:
        """Arrays of `count` rows, and what to wait for before they are used; no more than `size`
        rows are ever asked for."""
        shapes = [(count, *part.shape) for part in self.parts]
        if self.stream is None:
            hosts = [
                np.empty(shape, part.dtype) for shape, part in zip(shapes, self.parts, strict=True)
            ]
            for part, host in zip(self.parts, hosts, strict=True):
                part.fill(rows, host)
            return [wrap(host) for host in hosts], None
        with device_of(self.device), self.stream:
            at = self.count % len(self.slots)
            self.count += 1
            slot = self.slots[at]
            if slot is None:
                buffers = [pinned((size, *part.shape), part.dtype) for part in self.parts]
                slot = self.slots[at] = buffers, streams.Event(timing=False, device=self.device)
            else:
                slot[1].synchronize()  # what was in these buffers has been copied
            buffers, copied = slot
            made = []
            for part, shape, buffer in zip(self.parts, shapes, buffers, strict=True):
                host = buffer[:count]
                part.fill(rows, host)
                array = allocate(Layout.new(shape, part.dtype, self.device))
                memory.upload(array._data, host.ctypes.data, host.nbytes, self.stream, wait=False)
                made.append(array)
            self.stream.record(copied)
            return made, self.stream.record()

    def release(self) -> None:
        """Give the page-locked buffers back. Their memory is freed once it has been copied
        (`release_host_memory`)."""
        self.slots = [None] * len(self.slots)


class _Stop:
    """Tells a worker's thread to end when it is called. That waits for nothing: a collection of
    garbage calls it in the midst of anything, also while its thread has a lock that the other one
    is waiting for.

    It is all that the finaliser of a `Batches` refers to. The worker itself may hold an error,
    whose traceback leads to the `Batches`, which then would never be garbage.
    """

    def __init__(self) -> None:
        self.room: queue.SimpleQueue = (
            queue.SimpleQueue()
        )  # something for each batch that there is room for
        self.stopped = False

    def __call__(self) -> None:
        self.stopped = True
        self.room.put(None)


class _Worker:
    """A thread that makes batches ahead, and the way they come back. Knows nothing of the `Batches`
    it works for, so that one that nobody holds any more can end it."""

    def __init__(self, maker: _Maker, jobs: Iterator[tuple[Rows, int]], size: int, ahead: int):
        self.stop = _Stop()
        for _ in range(ahead):
            self.stop.room.put(None)
        self.ready: queue.SimpleQueue = queue.SimpleQueue()
        self.process = os.getpid()
        self.thread = threading.Thread(
            target=self._run, args=(maker, jobs, size), name="cudamath.data", daemon=True
        )
        _running.add(self)
        self.thread.start()

    def _run(self, maker: _Maker, jobs: Iterator[tuple[Rows, int]], size: int) -> None:
        try:
            for rows, count in jobs:
                self.stop.room.get()
                if self.stop.stopped:
                    break
                self.ready.put((maker.make(rows, count, size), None))
        except BaseException as error:  # raised where the batch is wanted
            self.ready.put((None, error))
        finally:
            maker.release()
            _running.discard(self)

    def take(self) -> tuple[list[ndarray], streams.Event | None]:
        made, error = self.ready.get()
        if error is not None:
            self.ready.put((None, error))  # for whoever asks again
            self.thread.join()  # it is about to end, and holds what it had made until then
            raise error
        self.stop.room.put(None)
        return made

    def join(self) -> None:
        """Wait until the thread has ended, and drop what it made."""
        if self.thread is not threading.current_thread():
            self.thread.join()
        while not self.ready.empty():
            self.ready.get()


_running: set[_Worker] = set()


@atexit.register
def _end_all() -> None:
    """No thread may be using a device when the interpreter is taken apart, also none whose
    `Batches` is gone."""
    for worker in list(_running):
        worker.stop()
        worker.join()


class Batches:
    """An iterable of batches, returned by `batches`.

    A loop over it runs through the rest of the epoch. The next loop is the next epoch.

    Parameters
    ----------
    arrays : tree
        Array, or arrays with equally many rows.
    size : int
        Number of rows of a batch.
    shuffle : bool
        Whether the rows are shuffled.
    seed : int
        Seed of the order.
    drop_last : bool
        Whether an incomplete last batch is dropped.
    device : int
        Ordinal of the device.
    prefetch : int
        Number of batches that are prepared ahead.
    share : (int, int)
        Number of this process, and how many divide each batch among them.

    Attributes
    ----------
    state : dict
        {"epoch", "batch"}: which batch comes next. Assign such a dict to go there. A tree for
        `cm.save`.
    """

    def __init__(
        self,
        arrays: Tree,
        size: int,
        shuffle: bool,
        seed: int,
        drop_last: bool,
        device: int,
        prefetch: int,
        share: tuple[int, int],
    ):
        leaves: list[Any]
        leaves, self._structure = trees.flatten("batches", arrays)
        if not leaves:
            raise ValueError("batches: wants at least one array")
        leaves = [leaf.to_numpy() if isinstance(leaf, ndarray) else leaf for leaf in leaves]
        for leaf in leaves:
            if not isinstance(leaf, (np.ndarray, Tokens)):
                raise TypeError(
                    "batches: wants NumPy arrays and what data.tokens makes, got "
                    f"{type(leaf).__name__}"
                )
            if isinstance(leaf, np.ndarray) and not leaf.ndim:
                raise ValueError(f"batches: wants arrays of rows, got a 0-d array of {leaf.dtype}")
            if isinstance(leaf, np.ma.MaskedArray):
                raise TypeError(
                    f"batches: a mask would be lost of {leaf.dtype} of shape {leaf.shape}: give "
                    "x.filled(value)"
                )
            if isinstance(leaf, np.ndarray) and leaf.dtype.newbyteorder("=") not in dtypes.HELD:
                raise TypeError(
                    f"batches: arrays of {leaf.dtype} are not supported, got shape {leaf.shape}"
                )
        counts = [len(leaf) for leaf in leaves]
        if len(set(counts)) > 1:
            raise ValueError(f"batches: wants arrays of equally many rows, got {counts}")
        size, prefetch = (
            _whole("batches", "size", size, 1),
            _whole("batches", "prefetch", prefetch, 0),
        )
        seed = _whole("batches", "seed", seed, 0)
        if seed >= 1 << 64:
            raise ValueError(f"batches: wants a seed in [0, 2^64), got {seed}")
        self._rows, self._size, self._shuffle, self._seed, self._last = (
            counts[0],
            size,
            shuffle,
            seed,
            not drop_last,
        )
        if not len(self):
            raise ValueError(
                f"batches: {counts[0]} rows do not make one batch of {size}"
                + " (drop_last)" * drop_last
            )
        self._share = _share_of(share)
        rest = self._rows % size if self._last else 0
        for length, way in ((size, ""), (rest, "; drop_last leaves it out")):
            if length % self._share[1]:
                raise ValueError(
                    f"batches: {self._share[1]} processes cannot divide a batch of {length} rows "
                    f"equally{way}"
                )
        self._pairs = [isinstance(leaf, Tokens) for leaf in leaves]
        parts = [
            part
            for leaf in leaves
            for part in (leaf.parts() if isinstance(leaf, Tokens) else [_array_part(leaf)])
        ]
        self._own = size // self._share[1]  # rows of a batch that come here
        self._maker = _Maker(parts, device, prefetch + 1)
        self._prefetch = prefetch
        self._epoch = self._batch = 0
        self._jobs: Iterator[tuple[Rows, int]] | None = None
        self._worker: _Worker | None = None
        self._ending: Any = None

    def __len__(self) -> int:
        whole, rest = divmod(self._rows, self._size)
        return whole + (rest > 0 and self._last)

    @property
    def state(self) -> dict[str, int]:
        """Position in the epochs: {"epoch", "batch"}, a tree for `cm.save`.

        Assign such a dict to go there.
        """
        return {"epoch": self._epoch, "batch": self._batch}

    @state.setter
    def state(self, state: dict[str, int]) -> None:
        if (
            not isinstance(state, dict)
            or set(state) != {"epoch", "batch"}
            or not all(type(value) is int and value >= 0 for value in state.values())
        ):
            raise ValueError(f"batches: a state is {{'epoch': int, 'batch': int}}, got {state}")
        if state["batch"] >= len(self):
            raise ValueError(
                f"batches: an epoch has {len(self)} batches, the state is at number "
                f"{state['batch']}: it was "
                "saved with other data or another size"
            )
        self.close()
        self._epoch, self._batch = state["epoch"], state["batch"]

    def __iter__(self) -> Iterator[Any]:
        epoch = self._epoch
        while self._epoch == epoch:
            yield self._next()

    def steps(self, count: int) -> Iterator[Any]:
        """Return an iterator of the next `count` batches, over as many epochs as it takes.

        Parameters
        ----------
        count : int
            Number of batches.

        Yields
        ------
        object
            Iterator of batches.

        Examples
        --------
        >>> import cudamath as cm, numpy as np
        >>> loader = cm.data.batches(np.arange(3), 2)
        >>> [x.tolist() for x in loader.steps(4)]
        [[0, 1], [2], [0, 1], [2]]
        """
        for _ in range(_whole("batches", "count", count, 0)):
            yield self._next()

    def close(self) -> None:
        """End the thread and drop the batches made ahead.

        A later loop continues at the position of this one.
        """
        if self._ending is not None:
            self._ending()
        if self._worker is not None:
            self._worker.join()
        self._jobs = self._worker = self._ending = None

    def __enter__(self) -> Batches:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _next(self) -> Any:
        if (
            self._worker is not None and self._worker.process != os.getpid()
        ):  # a fork, which has none of its parent's threads
            self._maker = _Maker(self._maker.parts, self._maker.device, len(self._maker.slots))
            self.close()
        if self._jobs is None:
            self._jobs = _jobs(
                self._rows,
                self._size,
                len(self),
                self._seed if self._shuffle else None,
                self._epoch,
                self._batch,
                self._share,
            )
            if self._prefetch:
                self._worker = _Worker(self._maker, self._jobs, self._own, self._prefetch)
            self._ending = weakref.finalize(
                self, self._worker.stop if self._worker else self._maker.release
            )
        if self._worker is None:
            arrays, ready = self._maker.make(*next(self._jobs), self._own)
        else:
            arrays, ready = self._worker.take()
        if ready is not None:
            streams.stream_of(self._maker.device).wait(ready)
        self._batch += 1
        if self._batch == len(self):
            self._epoch, self._batch = self._epoch + 1, 0
        each = iter(arrays)
        return self._structure.unflatten(
            [(next(each), next(each)) if pair else next(each) for pair in self._pairs]
        )


def _share_of(share: Any) -> tuple[int, int]:
    """(number, count) of a process. ValueError if there is no such process."""
    try:
        part, parts = share
        good = type(part) is type(parts) is int and 0 <= part < parts
    except (TypeError, ValueError):
        good = False
    if not good:
        raise ValueError(
            f"batches: share is (number of this process, how many there are), got {share!r}"
        )
    return part, parts


def _jobs(
    rows: int,
    size: int,
    batches: int,
    seed: int | None,
    epoch: int,
    batch: int,
    share: tuple[int, int] = (0, 1),
) -> Iterator[tuple[Rows, int]]:
    """Which rows each batch has, and how many, from batch number `batch` of `epoch` on, without
    end; or those of a share of it."""
    part, parts = share
    while True:
        # Philox: the seed is its key, the epoch its stream, so that epochs have nothing in common.
        order = (
            None
            if seed is None
            else default_rng(seed | epoch << 64).permutation(rows, device="cpu").to_numpy()
        )
        for i in range(batch, batches):
            begin, end = i * size, min((i + 1) * size, rows)
            own = (end - begin) // parts
            begin, end = begin + part * own, begin + (part + 1) * own
            yield slice(begin, end) if order is None else order[begin:end], end - begin
        epoch, batch = epoch + 1, 0


@with_hints
def batches(
    arrays: Tree,
    size: int,
    *,
    shuffle: bool = False,
    seed: int = 0,
    drop_last: bool = False,
    device: DeviceLike | None = None,
    prefetch: int = 2,
    share: tuple[int, int] = (0, 1),
) -> Batches:
    """Return batches of rows of one or several arrays on a device.

    The next batches are prepared while the current one is used.

    Parameters
    ----------
    arrays : tree of NumPy arrays (n, ...), memory-mapped ones too, or of what `tokens` makes
        All of equally many rows. They are read in a thread: do not change them meanwhile.
    size : int
        Rows of a batch.
    shuffle : bool, default False
        Every epoch in another order. Which order depends on seed and epoch alone, not on the
        device.
    seed : int, default 0
        0 <= seed < 2^64.
    drop_last : bool, default False
        Leave out the batch at the end of an epoch that would be smaller. (A CUDA graph is of one
        size.).
    device : device, optional
        Where the batches go; the default device as it is now.
    prefetch : int, default 2
        How many batches are made ahead, by a thread; 0: none, each is made when it is requested. On
        a GPU so many batches and one more have page-locked buffers on the host.
    share : (int, int), default (0, 1)
        (`distributed.rank()`, `distributed.size()`): of each batch of `size` rows this process gets
        its part. `state` counts whole batches, so a run goes on with another number of processes.

    Returns
    -------
    Batches
        Loop over it: batches are trees like `arrays`, of arrays (size, ...). `len` is the number of
        batches of an epoch, `steps(count)` goes on through epochs, `state` says and sets where it
        is, `close()` ends the thread (as leaving a `with` does, or dropping it). What goes wrong in
        the thread is raised where its batch is requested.

    Raises
    ------
    TypeError
        Leaves that are not NumPy arrays, or dtypes that arrays cannot have.
    ValueError
        Arrays of different lengths; no row, or too few for a batch; size, seed or prefetch out of
        range; a batch that the processes cannot divide equally.
    DeviceError
        There is no such device.

    Examples
    --------
    >>> import cudamath as cm, numpy as np
    >>> loader = cm.data.batches({"x": np.arange(5), "y": np.eye(5)}, 2, shuffle=True, seed=1)
    >>> len(loader), sorted(sum([batch["x"].tolist() for batch in loader], []))
    (3, [0, 1, 2, 3, 4])
    >>> loader.state
    {'epoch': 1, 'batch': 0}
    """
    return Batches(
        arrays, size, bool(shuffle), seed, bool(drop_last), index_of(device), prefetch, share
    )
