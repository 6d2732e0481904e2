"""Creation, views, indexing, assignment, joins and copies of arrays."""

from __future__ import annotations

import numpy as np

from .arguments import Pair, named, same

LIST = [0.5] * 64  # what becomes an array
HOST = np.linspace(0, 1, 4096, dtype=np.float32).reshape(64, 64)

CALLS: dict[str, Pair] = {
    "a[1:3] = 1": same(lambda lib, x: x.a.__setitem__(slice(1, 3), 1.0)),
    "a[1:]": same(lambda lib, x: x.a[1:]),
    "a.T": same(lambda lib, x: x.a.T),
    "a.reshape(-1)": same(lambda lib, x: x.a.reshape(-1)),
    "broadcast_to(v, (64, 64))": same(lambda lib, x: lib.broadcast_to(x.v, (64, 64))),
    "split(a, 2)": (lambda lib, x: lib.split(x.a, 2), lambda lib, x: lib.split(x.a, 32)),
    "take(a, places, 0)": (
        lambda lib, x: lib.take(x.a, x.places, axis=0),
        lambda lib, x: lib.index_select(x.a, 0, x.places),
    ),
    "a[places]": same(lambda lib, x: x.a[x.places]),
    "concat([a, b])": (lambda lib, x: lib.concat([x.a, x.b]), lambda lib, x: lib.cat([x.a, x.b])),
    "stack([a, b])": same(lambda lib, x: lib.stack([x.a, x.b])),
    "pad(a, 1)": (
        lambda lib, x: lib.pad(x.a, 1),
        lambda lib, x: lib.nn.functional.pad(x.a, (1, 1, 1, 1)),
    ),
    "roll(a, 3)": same(lambda lib, x: lib.roll(x.a, 3)),
    "flip(a)": (lambda lib, x: lib.flip(x.a), lambda lib, x: lib.flip(x.a, (0, 1))),
    "tril(a)": same(lambda lib, x: lib.tril(x.a)),
    "tile(a, (2, 2))": same(lambda lib, x: lib.tile(x.a, (2, 2))),
    "repeat(a, 2)": (
        lambda lib, x: lib.repeat(x.a, 2),
        lambda lib, x: lib.repeat_interleave(x.a, 2),
    ),
    "copy(a.T)": (lambda lib, x: lib.copy(x.a.T), lambda lib, x: x.a.T.contiguous()),
    "zeros((64, 64))": (
        lambda lib, x: lib.zeros((64, 64), dtype="float32"),
        lambda lib, x: lib.zeros((64, 64), device=x.a.device),
    ),
    "full((64, 64), 2)": (
        lambda lib, x: lib.full((64, 64), 2.0, dtype="float32"),
        lambda lib, x: lib.full((64, 64), 2.0, device=x.a.device),
    ),
    "ones_like(a)": same(lambda lib, x: lib.ones_like(x.a)),
    "arange(64)": (lambda lib, x: lib.arange(64), lambda lib, x: lib.arange(64, device=x.a.device)),
    "eye(64)": (
        lambda lib, x: lib.eye(64, dtype="float32"),
        lambda lib, x: lib.eye(64, device=x.a.device),
    ),
    "expand_dims(a, 0)": (
        lambda lib, x: lib.expand_dims(x.a, 0),
        lambda lib, x: lib.unsqueeze(x.a, 0),
    ),
    "swapaxes(a, 0, 1)": same(lambda lib, x: lib.swapaxes(x.a, 0, 1)),
    "permute_dims(images, ...)": (
        lambda lib, x: lib.permute_dims(x.images, (0, 2, 3, 1)),
        lambda lib, x: lib.permute(x.images, (0, 2, 3, 1)),
    ),
    "moveaxis(images, 1, -1)": same(lambda lib, x: lib.moveaxis(x.images, 1, -1)),
    "diagonal(a)": same(lambda lib, x: lib.diagonal(x.a)),
    "unstack(kernels)": (
        lambda lib, x: lib.unstack(x.kernels),
        lambda lib, x: lib.unbind(x.kernels),
    ),
    "a[0]": same(lambda lib, x: x.a[0]),
    "a[:, 1]": same(lambda lib, x: x.a[:, 1]),
    "a[1:3, ::2]": same(lambda lib, x: x.a[1:3, ::2]),
    "a[:, places]": same(lambda lib, x: x.a[:, x.places]),
    "a[mask] = 0": same(lambda lib, x: x.a.__setitem__(x.mask, 0.0)),
    "take_along_axis": (
        lambda lib, x: lib.take_along_axis(x.a, x.classes[:, None], axis=1),
        lambda lib, x: lib.gather(x.a, 1, x.classes[:, None]),
    ),
    "hstack([a, b])": same(lambda lib, x: lib.hstack([x.a, x.b])),
    "vstack([a, b])": same(lambda lib, x: lib.vstack([x.a, x.b])),
    "linspace(0, 1, 64)": (
        lambda lib, x: lib.linspace(0, 1, 64),
        lambda lib, x: lib.linspace(0, 1, 64, device=x.a.device),
    ),
    "a.copy()": (lambda lib, x: x.a.copy(), lambda lib, x: x.a.clone()),
    "zeros_like(a)": same(lambda lib, x: lib.zeros_like(x.a)),
    "full_like(a, 2)": same(lambda lib, x: lib.full_like(x.a, 2.0)),
    "empty((64, 64))": (
        lambda lib, x: lib.empty((64, 64), dtype="float32"),
        lambda lib, x: lib.empty((64, 64), device=x.a.device),
    ),
    "nonzero(mask)": (
        lambda lib, x: lib.nonzero(x.mask),
        lambda lib, x: lib.nonzero(x.mask, as_tuple=True),
    ),
    "a[0, 0]": same(lambda lib, x: x.a[0, 0]),
    "a[0, 0].item()": same(lambda lib, x: x.a[0, 0].item()),
    "a[:, None]": same(lambda lib, x: x.a[:, None]),
    "a[mask]": same(lambda lib, x: x.a[x.mask]),
    "a[0] = v": same(lambda lib, x: x.a.__setitem__(0, x.v)),
    "a[:, 0] = v": same(lambda lib, x: x.a.__setitem__((slice(None), 0), x.v)),
    "a[places] = 0": same(lambda lib, x: x.a.__setitem__(x.places, 0.0)),
    "index_add(a, places, a[:32])": (
        lambda lib, x: lib.index_add(x.a, x.places, x.a[:32]),
        lambda lib, x: lib.index_add(x.a, 0, x.places, x.a[:32]),
    ),
    "diag(v)": same(lambda lib, x: lib.diag(x.v)),
    "meshgrid(v, v)": (
        lambda lib, x: lib.meshgrid(x.v, x.v),
        lambda lib, x: [line.contiguous() for line in lib.meshgrid(x.v, x.v, indexing="xy")],
    ),
    "meshgrid(v, v), views": (
        lambda lib, x: lib.meshgrid(x.v, x.v, copy=False),
        lambda lib, x: lib.meshgrid(x.v, x.v, indexing="xy"),
    ),
    "reshape(a, (32, 128))": same(lambda lib, x: lib.reshape(x.a, (32, 128))),
    "reshape(a.T, (-1,))": same(lambda lib, x: lib.reshape(x.a.T, (-1,))),
    "matrix_transpose(images)": (
        lambda lib, x: lib.matrix_transpose(x.images),
        lambda lib, x: x.images.mT,
    ),
    "broadcast_arrays(a, v)": (
        lambda lib, x: lib.broadcast_arrays(x.a, x.v),
        lambda lib, x: lib.broadcast_tensors(x.a, x.v),
    ),
    "column_stack([v, v])": same(lambda lib, x: lib.column_stack([x.v, x.v])),
    "dstack([a, b])": same(lambda lib, x: lib.dstack([x.a, x.b])),
    "hsplit(a, 2)": same(lambda lib, x: lib.hsplit(x.a, 2)),
    "asarray(a)": (lambda lib, x: lib.asarray(x.a), lambda lib, x: lib.as_tensor(x.a)),
    "asarray([1.0, 2.0])": (
        lambda lib, x: lib.asarray([1.0, 2.0]),
        lambda lib, x: lib.tensor([1.0, 2.0], device=x.a.device),
    ),
    "asarray(2.0)": (
        lambda lib, x: lib.asarray(2.0),
        lambda lib, x: lib.tensor(2.0, device=x.a.device),
    ),
    "a.to_numpy()": (lambda lib, x: x.a.to_numpy(), lambda lib, x: x.a.cpu().numpy()),
    "v.tolist()": same(lambda lib, x: x.v.tolist()),
    "ones((64, 64))": (
        lambda lib, x: lib.ones((64, 64), dtype="float32"),
        lambda lib, x: lib.ones((64, 64), device=x.a.device),
    ),
    "logspace(0, 1, 64)": (
        lambda lib, x: lib.logspace(0, 1, 64),
        lambda lib, x: lib.logspace(0, 1, 64, device=x.a.device),
    ),
    "hanning(64)": (
        lambda lib, x: lib.hanning(64),
        lambda lib, x: lib.hann_window(64, device=x.a.device),
    ),
    "tril_indices(64)": (
        lambda lib, x: lib.tril_indices(64),
        lambda lib, x: lib.tril_indices(64, 64, device=x.a.device),
    ),
    "put_along_axis": (
        lambda lib, x: lib.put_along_axis(x.b, x.classes[:, None], 0.0, axis=1),
        lambda lib, x: x.b.scatter_(1, x.classes[:, None], 0.0),
    ),
    "a[places] = a[:32]": same(lambda lib, x: x.b.__setitem__(x.places, x.a[:32])),
    "a[places, places]": same(lambda lib, x: x.a[x.places, x.places]),
    "if a[0, 0] > 0": same(lambda lib, x: bool(x.a[0, 0] > 0)),
    "triu_indices(64)": (
        lambda lib, x: lib.triu_indices(64),
        lambda lib, x: lib.triu_indices(64, 64, device=x.a.device),
    ),
    "kaiser(64, 12.0)": (
        lambda lib, x: lib.kaiser(64, 12.0),
        lambda lib, x: lib.kaiser_window(64, True, 12.0, device=x.a.device),
    ),
    "unravel_index(classes, (8, 8))": same(lambda lib, x: lib.unravel_index(x.classes, (8, 8))),
    "vsplit(a, 2)": same(lambda lib, x: lib.vsplit(x.a, 2)),
    "dsplit(images, 2)": same(lambda lib, x: lib.dsplit(x.images, 2)),
    "array_split(a, 3)": (
        lambda lib, x: lib.array_split(x.a, 3),
        lambda lib, x: lib.tensor_split(x.a, 3),
    ),
    "a[places, places] = 0": same(lambda lib, x: x.b.__setitem__((x.places, x.places), 0)),
    "a[:, places] = 0": same(lambda lib, x: x.b.__setitem__((slice(None), x.places), 0)),
    "a[mask] = b[mask]": same(lambda lib, x: x.b.__setitem__(x.mask, x.a[x.mask])),
    "a[None, places]": same(lambda lib, x: x.a[None, x.places]),
    "a[0, places]": same(lambda lib, x: x.a[0, x.places]),
    "append(v, v)": (lambda lib, x: lib.append(x.v, x.v), lambda lib, x: lib.cat([x.v, x.v])),
    "array(list of 64)": (
        lambda lib, x: lib.array(LIST),
        lambda lib, x: lib.tensor(LIST, device=x.a.device),
    ),
    "roll(a, (1, -2), (0, 1))": same(lambda lib, x: lib.roll(x.a, (1, -2), (0, 1))),
    "roll(a, -3, 1)": same(lambda lib, x: lib.roll(x.a, -3, 1)),
    "roll(a.T, (1, 2), (0, 1))": same(lambda lib, x: lib.roll(x.a.T, (1, 2), (0, 1))),
    "roll(images, (1, 2, 3), (1, 2, 3))": same(
        lambda lib, x: lib.roll(x.images, (1, 2, 3), (1, 2, 3))
    ),
    "pad(images, edge)": (
        lambda lib, x: lib.pad(x.images, ((0, 0), (0, 0), (1, 2), (2, 1)), mode="edge"),
        lambda lib, x: lib.nn.functional.pad(x.images, (2, 1, 1, 2), "replicate"),
    ),
    "pad(images, reflect)": (
        lambda lib, x: lib.pad(x.images, ((0, 0), (0, 0), (1, 2), (2, 1)), mode="reflect"),
        lambda lib, x: lib.nn.functional.pad(x.images, (2, 1, 1, 2), "reflect"),
    ),
    "pad(images, wrap)": (
        lambda lib, x: lib.pad(x.images, ((0, 0), (0, 0), (1, 2), (2, 1)), mode="wrap"),
        lambda lib, x: lib.nn.functional.pad(x.images, (2, 1, 1, 2), "circular"),
    ),
    "pad(v, 3, edge)": (
        lambda lib, x: lib.pad(x.v, 3, mode="edge"),
        lambda lib, x: lib.nn.functional.pad(x.v[None], (3, 3), "replicate")[0],
    ),
}
CALLS |= {
    f"{name}(a)": named(name, "a")
    for name in (
        "squeeze",
        "ravel",
        "atleast_2d",
        "atleast_3d",
        "fliplr",
        "flipud",
        "rot90",
        "triu",
        "empty_like",
        "argwhere",
    )
}
CALLS |= {
    "flatnonzero(a)": named("flatnonzero", "a", torch="argwhere"),
    "diagflat(v)": named("diagflat", "v"),
    "atleast_1d(v)": named("atleast_1d", "v"),
}


def window(name: str) -> Pair:
    """A window of 64 points."""
    return (lambda lib, x: getattr(lib, name)(64)), (
        lambda lib, x: getattr(lib, f"{name}_window")(64, device=x.a.device)
    )


CALLS |= {f"{name}(64)": window(name) for name in ("hamming", "blackman", "bartlett")}
CALLS |= {
    # made
    "zeros(64)": (lambda lib, x: lib.zeros(64), lambda lib, x: lib.zeros(64, device=x.a.device)),
    "zeros((64, 64), int64)": (
        lambda lib, x: lib.zeros((64, 64), dtype="int64"),
        lambda lib, x: lib.zeros((64, 64), dtype=lib.int64, device=x.a.device),
    ),
    "full((64, 64), 7)": (
        lambda lib, x: lib.full((64, 64), 7),
        lambda lib, x: lib.full((64, 64), 7, device=x.a.device),
    ),
    "arange(0, 64, 2)": (
        lambda lib, x: lib.arange(0, 64, 2),
        lambda lib, x: lib.arange(0, 64, 2, device=x.a.device),
    ),
    "arange(0.0, 1.0, 0.1)": (
        lambda lib, x: lib.arange(0.0, 1.0, 0.1),
        lambda lib, x: lib.arange(0.0, 1.0, 0.1, device=x.a.device),
    ),
    "arange(64, float32)": (
        lambda lib, x: lib.arange(64, dtype="float32"),
        lambda lib, x: lib.arange(64, dtype=lib.float32, device=x.a.device),
    ),
    "identity(64)": (
        lambda lib, x: lib.identity(64),
        lambda lib, x: lib.eye(64, device=x.a.device),
    ),
    "eye(64, 32)": (
        lambda lib, x: lib.eye(64, 32),
        lambda lib, x: lib.eye(64, 32, device=x.a.device),
    ),
    "linspace(0, 1, 64, float32)": (
        lambda lib, x: lib.linspace(0, 1, 64, dtype="float32"),
        lambda lib, x: lib.linspace(0, 1, 64, dtype=lib.float32, device=x.a.device),
    ),
    "array(a)": (lambda lib, x: lib.array(x.a), lambda lib, x: x.a.clone()),
    "asarray(NumPy's)": (
        lambda lib, x: lib.asarray(HOST),
        lambda lib, x: lib.as_tensor(HOST, device=x.a.device),
    ),
    "asarray(NumPy's, 8 numbers)": (
        lambda lib, x: lib.asarray(HOST[0, :8]),
        lambda lib, x: lib.as_tensor(HOST[0, :8], device=x.a.device),
    ),
    "asarray(NumPy's, turned)": (
        lambda lib, x: lib.asarray(HOST.T),
        lambda lib, x: lib.as_tensor(HOST.T, device=x.a.device),
    ),
    "asarray(NumPy's, float64)": (
        lambda lib, x: lib.asarray(HOST, dtype="float64"),
        lambda lib, x: lib.as_tensor(HOST, dtype=lib.float64, device=x.a.device),
    ),
    "array(NumPy's)": (
        lambda lib, x: lib.array(HOST),
        lambda lib, x: lib.tensor(HOST, device=x.a.device),
    ),
    "array([1, 2, 3])": (
        lambda lib, x: lib.array([1, 2, 3]),
        lambda lib, x: lib.tensor([1, 2, 3], device=x.a.device),
    ),
    "array([[1.0, 2.0], [3.0, 4.0]])": (
        lambda lib, x: lib.array([[1.0, 2.0], [3.0, 4.0]]),
        lambda lib, x: lib.tensor([[1.0, 2.0], [3.0, 4.0]], device=x.a.device),
    ),
    "asarray(a, float64)": (
        lambda lib, x: lib.asarray(x.a, dtype="float64"),
        lambda lib, x: lib.as_tensor(x.a, dtype=lib.float64),
    ),
    "from_dlpack(a)": same(lambda lib, x: lib.from_dlpack(x.a)),
    "empty(64, int64)": (
        lambda lib, x: lib.empty(64, dtype="int64"),
        lambda lib, x: lib.empty(64, dtype=lib.int64, device=x.a.device),
    ),
    # views
    "a[-1]": same(lambda lib, x: x.a[-1]),
    "a[..., 0]": same(lambda lib, x: x.a[..., 0]),
    "a[:, 1:]": same(lambda lib, x: x.a[:, 1:]),
    "a[::2]": same(lambda lib, x: x.a[::2]),
    "a[:, ::-1]": (lambda lib, x: x.a[:, ::-1], lambda lib, x: lib.flip(x.a, (1,))),
    "a[None]": same(lambda lib, x: x.a[None]),
    "a[5, 3:7]": same(lambda lib, x: x.a[5, 3:7]),
    "a[2:4, 3:7]": same(lambda lib, x: x.a[2:4, 3:7]),
    "images[0, :, 1]": same(lambda lib, x: x.images[0, :, 1]),
    "images[:, :, ::2, ::2]": same(lambda lib, x: x.images[:, :, ::2, ::2]),
    "list(a)": same(lambda lib, x: list(x.a)),
    "a.flatten()": (
        lambda lib, x: x.a.flatten(),
        lambda lib, x: x.a.flatten().clone(),
    ),  # NumPy's is a copy
    "a.ravel()": same(lambda lib, x: x.a.ravel()),
    "a.reshape(64, 8, 8)": same(lambda lib, x: x.a.reshape(64, 8, 8)),
    "a.reshape((-1, 128))": same(lambda lib, x: x.a.reshape((-1, 128))),
    "a.view(int32)": (lambda lib, x: x.a.view("int32"), lambda lib, x: x.a.view(lib.int32)),
    "a.transpose()": (lambda lib, x: x.a.transpose(), lambda lib, x: x.a.t()),
    "a.swapaxes(0, 1)": same(lambda lib, x: x.a.swapaxes(0, 1)),
    "a.mT": same(lambda lib, x: x.a.mT),
    "transpose(images, (0, 2, 3, 1))": (
        lambda lib, x: lib.transpose(x.images, (0, 2, 3, 1)),
        lambda lib, x: lib.permute(x.images, (0, 2, 3, 1)),
    ),
    "squeeze(a[:, None], 1)": (
        lambda lib, x: lib.squeeze(x.a[:, None], axis=1),
        lambda lib, x: lib.squeeze(x.a[:, None], 1),
    ),
    "expand_dims(v, -1)": (
        lambda lib, x: lib.expand_dims(x.v, -1),
        lambda lib, x: lib.unsqueeze(x.v, -1),
    ),
    "diagonal(a, 1)": same(lambda lib, x: lib.diagonal(x.a, 1)),
    "split(a, [16, 32])": (
        lambda lib, x: lib.split(x.a, [16, 32]),
        lambda lib, x: lib.tensor_split(x.a, [16, 32]),
    ),
    "split(a, 4, 1)": (
        lambda lib, x: lib.split(x.a, 4, axis=1),
        lambda lib, x: lib.split(x.a, 16, 1),
    ),
    "unstack(a)": (lambda lib, x: lib.unstack(x.a), lambda lib, x: lib.unbind(x.a)),
    "sliding_window_view(v, 3)": (
        lambda lib, x: lib.sliding_window_view(x.v, 3),
        lambda lib, x: x.v.unfold(0, 3, 1),
    ),
    "broadcast_to(channels[:, None], (8, 64))": same(
        lambda lib, x: lib.broadcast_to(x.channels[:, None], (8, 64))
    ),
    # indexed
    "a[[0, 2]]": same(lambda lib, x: x.a[[0, 2]]),
    "a[:, [0, 2]]": same(lambda lib, x: x.a[:, [0, 2]]),
    "a[a > 0.5]": same(lambda lib, x: x.chances[x.chances > 0.5]),
    "a[places[:, None], places]": same(lambda lib, x: x.a[x.places[:, None], x.places]),
    "a[places, 0]": same(lambda lib, x: x.a[x.places, 0]),
    "v[places]": same(lambda lib, x: x.v[x.places]),
    "a[classes.reshape(8, 8)]": same(lambda lib, x: x.a[x.classes.reshape(8, 8)]),
    "take(v, places)": same(lambda lib, x: lib.take(x.v, x.places)),
    "take(a, places, 1)": (
        lambda lib, x: lib.take(x.a, x.places, axis=1),
        lambda lib, x: lib.index_select(x.a, 1, x.places),
    ),
    "compress(mask, a)": (
        lambda lib, x: lib.extract(x.mask, x.a),
        lambda lib, x: lib.masked_select(x.a, x.mask),
    ),
    "where(mask)": same(lambda lib, x: lib.where(x.mask)),
    "where(a > 0.5)": same(lambda lib, x: lib.where(x.chances > 0.5)),
    "float(a[3, 4])": same(lambda lib, x: float(x.a[3, 4])),
    "int(classes[0])": same(lambda lib, x: int(x.classes[0])),
    "a.tolist()": same(lambda lib, x: x.a.tolist()),
    "to the CPU": (lambda lib, x: x.a.to_device("cpu"), lambda lib, x: x.a.cpu()),
    "v to the CPU": (lambda lib, x: x.v.to_device("cpu"), lambda lib, x: x.v.cpu()),
    "a.T to the CPU": (
        lambda lib, x: x.a.T.to_device("cpu"),
        lambda lib, x: x.a.T.contiguous().cpu(),
    ),
    "a to NumPy's": (lambda lib, x: np.asarray(x.a), lambda lib, x: x.a.cpu().numpy()),
    # written into
    "c[0, 0] = 1": same(lambda lib, x: x.c.__setitem__((0, 0), 1.0)),
    "c[:] = 0": same(lambda lib, x: x.c.__setitem__(slice(None), 0.0)),
    "c[...] = NumPy's": (
        lambda lib, x: x.c.__setitem__(..., HOST),
        lambda lib, x: x.c.__setitem__(..., lib.from_numpy(HOST)),
    ),
    "c[...] = a": same(lambda lib, x: x.c.__setitem__(..., x.a)),
    "c[:, 1:3] = a[:, 1:3]": same(
        lambda lib, x: x.c.__setitem__((slice(None), slice(1, 3)), x.a[:, 1:3])
    ),
    "c[::2] = 0": same(lambda lib, x: x.c.__setitem__(slice(None, None, 2), 0)),
    "c[c > 0.5] = 0": same(lambda lib, x: x.c.__setitem__(x.c > 0.5, 0.0)),
    "c[:, 1] += 1": same(lambda lib, x: x.c.__setitem__((slice(None), 1), x.c[:, 1].__iadd__(1.0))),
    "c[places] += 1": same(lambda lib, x: x.c.__setitem__(x.places, x.c[x.places].__iadd__(1.0))),
    "c[places, 0] = 1": same(lambda lib, x: x.c.__setitem__((x.places, 0), 1.0)),
    "c.fill(1)": (lambda lib, x: x.c.fill(1.0), lambda lib, x: x.c.fill_(1.0)),
    "copyto(c, a)": (lambda lib, x: lib.copyto(x.c, x.a), lambda lib, x: x.c.copy_(x.a)),
    "copyto(c, a, mask)": (
        lambda lib, x: lib.copyto(x.c, x.a, where=x.mask),
        lambda lib, x: x.c.copy_(lib.where(x.mask, x.a, x.c)),
    ),
    "putmask(c, mask, 0)": (
        lambda lib, x: lib.putmask(x.c, x.mask, 0.0),
        lambda lib, x: x.c.masked_fill_(x.mask, 0.0),
    ),
    "put(c, places, v)": (
        lambda lib, x: lib.put(x.c, x.places, x.v[:32]),
        lambda lib, x: x.c.put_(x.places, x.v[:32]),
    ),
    "fill_diagonal(c, 0)": (
        lambda lib, x: lib.fill_diagonal(x.c, 0.0),
        lambda lib, x: x.c.fill_diagonal_(0.0),
    ),
    "add_at(c, places, a[:32])": (
        lambda lib, x: lib.add_at(x.c, x.places, x.a[:32]),
        lambda lib, x: x.c.index_add_(0, x.places, x.a[:32]),
    ),
    # joined, copied
    "concat([a, b], 1)": (
        lambda lib, x: lib.concat([x.a, x.b], axis=1),
        lambda lib, x: lib.cat([x.a, x.b], 1),
    ),
    "concatenate((v, v, v))": same(lambda lib, x: lib.concatenate((x.v, x.v, x.v))),
    "concat of 8": (lambda lib, x: lib.concat([x.a] * 8), lambda lib, x: lib.cat([x.a] * 8)),
    "stack([a, b], -1)": (
        lambda lib, x: lib.stack([x.a, x.b], axis=-1),
        lambda lib, x: lib.stack([x.a, x.b], -1),
    ),
    "stack([v, v, v, v])": same(lambda lib, x: lib.stack([x.v, x.v, x.v, x.v])),
    "block([[a, b], [b, a]])": (
        lambda lib, x: lib.block([[x.a, x.b], [x.b, x.a]]),
        lambda lib, x: lib.cat([lib.cat([x.a, x.b], 1), lib.cat([x.b, x.a], 1)]),
    ),
    "hstack([v, v])": same(lambda lib, x: lib.hstack([x.v, x.v])),
    "tile(v, 2)": (lambda lib, x: lib.tile(x.v, 2), lambda lib, x: lib.tile(x.v, (2,))),
    "repeat(a, 2, 0)": (
        lambda lib, x: lib.repeat(x.a, 2, axis=0),
        lambda lib, x: lib.repeat_interleave(x.a, 2, 0),
    ),
    "flip(a, 0)": (lambda lib, x: lib.flip(x.a, axis=0), lambda lib, x: lib.flip(x.a, (0,))),
    "triu(a, 1)": same(lambda lib, x: lib.triu(x.a, 1)),
    "tril(a, -1)": same(lambda lib, x: lib.tril(x.a, -1)),
    "diag(a)": same(lambda lib, x: lib.diag(x.a)),
    "a[1:].copy()": (lambda lib, x: x.a[1:].copy(), lambda lib, x: x.a[1:].clone()),
    "ascontiguousarray(turned)": (
        lambda lib, x: lib.ascontiguousarray(x.turned),
        lambda lib, x: x.turned.contiguous(),
    ),
    "ascontiguousarray(a)": (
        lambda lib, x: lib.ascontiguousarray(x.a),
        lambda lib, x: x.a.contiguous(),
    ),
    "zeros + write": (
        lambda lib, x: lib.zeros((64, 64), dtype="float32").__setitem__(0, x.v),
        lambda lib, x: lib.zeros((64, 64), device=x.a.device).__setitem__(0, x.v),
    ),
}
