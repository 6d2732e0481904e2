"""Keys of arrays, drawn by hypothesis: basic ones, index arrays, masks, and mixtures of these."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

BASIC = st.one_of(
    st.none(), st.just(...), st.integers(-4, 3), st.slices(4), st.integers(-2, 2).map(np.int32)
)
INDICES = hnp.arrays(
    st.sampled_from([np.dtype(t) for t in ("i1", "i4", "i8")]),
    hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3),
    elements=st.integers(-3, 2),
)
MASKS = hnp.arrays(bool, hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3))
ANY_ENTRY = st.one_of(
    BASIC, INDICES, MASKS, st.booleans(), st.lists(st.integers(-2, 1), max_size=3)
)
SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3)


@st.composite
def keys_for(draw, shape, entries=ANY_ENTRY):
    """A key that often fits the shape: masks take the sizes of the axes they stand for."""
    key, axis = [], 0
    for _ in range(draw(st.integers(0, len(shape) + 1))):
        kind = draw(st.sampled_from(["any", "mask", "index", "slice"]))
        left = max(len(shape) - axis, 0)
        if kind == "mask" and left:
            width = draw(st.integers(1, left))
            key.append(draw(hnp.arrays(bool, shape[axis : axis + width])))
            axis += width
        elif kind == "index" and left and shape[axis]:
            n = shape[axis]
            key.append(
                draw(
                    hnp.arrays(
                        np.int64,
                        st.sampled_from([(), (2,), (1,), (3, 2), (3, 1)]),
                        elements=st.integers(-n, n - 1),
                    )
                )
            )
            axis += 1
        elif kind == "slice":
            key.append(
                draw(
                    st.one_of(
                        st.slices(shape[axis]) if left else st.none(), st.just(...), st.none()
                    )
                )
            )
            axis += isinstance(key[-1], slice)
        else:
            key.append(draw(entries))
            axis += 1
    return tuple(key) if len(key) != 1 or draw(st.booleans()) else key[0]


def masks_fit(case):
    """NumPy lets a mask of size 0 pass for an axis of size 1 in some keys, which ours never does:
    left out."""
    shape, key = case
    empty = [
        item
        for item in (key if isinstance(key, tuple) else (key,))
        if isinstance(item, np.ndarray) and item.dtype == bool and item.size == 0
    ]
    return not empty or not isinstance(key, tuple) and key.shape == shape[: key.ndim]


SHAPE_AND_KEY = SHAPES.flatmap(lambda shape: st.tuples(st.just(shape), keys_for(shape))).filter(
    masks_fit
)
