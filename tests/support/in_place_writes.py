"""Ways to write into an array of three float64 elements, by name."""

import numpy as np

import cudamath as cm

WRITES = {
    "setitem": lambda x: x.__setitem__(0, 9.0),
    "slice": lambda x: x.__setitem__(slice(None), 9.0),
    "ellipsis": lambda x: x.__setitem__(..., x + 1),
    "list": lambda x: x.__setitem__([0, 1], [8.0, 9.0]),
    "mask": lambda x: x.__setitem__(x > 0, 9.0),
    "iadd": lambda x: x.__iadd__(1),
    "imul of a view": lambda x: x[:2].__imul__(3),
    "fill": lambda x: x.fill(9.0),
    "out of a ufunc": lambda x: cm.add(x, 1, out=x),
    "out where": lambda x: cm.add(x, 1, out=x, where=x > 0),
    "out of a reduction": lambda x: cm.sum(cm.ones((4, 3)), axis=0, out=x),
    "out of a product": lambda x: cm.matmul(cm.ones((3, 3)), cm.ones(3), out=x),
    "put": lambda x: cm.put(x, [0, 1], [7.0, 8.0]),
    "place": lambda x: cm.place(x, x > 0, [7.0]),
    "putmask": lambda x: cm.putmask(x, x > 0, 7.0),
    "copyto": lambda x: cm.copyto(x, cm.full(3, 4.0)),
    "copyto where": lambda x: cm.copyto(x, 5.0, where=x > 0),
    "add_at": lambda x: cm.add_at(x, [0, 0], 1.0),
    "at": lambda x: cm.multiply.at(x, [0, 1], 3.0),
    "put_along_axis": lambda x: cm.put_along_axis(x, cm.array([0, 1]), 9.0, 0),
    "sort": lambda x: (x.__imul__(-1), x.sort()),
    "flat": lambda x: x.flat.__setitem__(0, 9.0),
    "copy_to": lambda x: (x + 1).copy_to(x),
    "from the host": lambda x: x.__setitem__(..., np.full(3, 5.0)),
    "sgd": lambda x: cm.ml.sgd_update([x], [cm.ones(3)], lr=1.0),
    "adam": lambda x: cm.ml.adam_update([x], [cm.ones(3)], cm.ml.adam_init([x]), lr=1.0),
    "fill_diagonal": lambda x: cm.fill_diagonal(x.reshape(1, 3), 9.0),
    "random": lambda x: cm.random.default_rng(0).shuffle(x) or x.__iadd__(1),
    "real": lambda x: setattr(x, "real", 9.0),
}
