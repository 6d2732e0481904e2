"""Gradients of small losses, and steps of optimizers."""

from __future__ import annotations

from typing import Any

from .arguments import Pair


def gradient(*names: str, ours: Any, theirs: Any = None) -> Pair:
    """The gradients of a loss with respect to the arrays of these names: the loss is a function of
    the library, of all other arguments and of these arrays; one for both libraries, or PyTorch's
    own (`theirs`)."""
    theirs = theirs or ours

    def in_cudamath(lib: Any, x: Any) -> object:
        differentiated = lib.grad(lambda *arrays: ours(lib, x, *arrays), tuple(range(len(names))))
        return differentiated(*[getattr(x, name) for name in names])

    def in_torch(lib: Any, x: Any) -> object:
        leaves = [getattr(x, name) for name in names]
        return lib.autograd.grad(theirs(lib, x, *leaves), leaves)

    return in_cudamath, in_torch


def layers(*names: str, ours: Any, theirs: Any = None) -> Pair:
    """`gradient` of the sum of what a function of `ml` (or `nn.functional`), of all arguments and
    of these arrays returns."""
    theirs = theirs or ours
    return gradient(
        *names,
        ours=lambda lib, x, *arrays: ours(lib.ml, x, *arrays).sum(),
        theirs=lambda lib, x, *arrays: theirs(lib.nn.functional, x, *arrays).sum(),
    )


def step(ours: str, theirs: str, **options: Any) -> Pair:
    """A step of an optimizer over three arrays; options: what is passed to both."""

    def in_cudamath(lib: Any, x: Any) -> object:
        params, grads = [x.w, x.k, x.table], [x.a, x.v, x.b]
        _, x.trained[title] = getattr(lib.ml, ours)(
            params, grads, x.trained.get(title) or begin(lib, params), **options
        )
        return None

    def in_torch(lib: Any, x: Any) -> object:
        optimizer = x.trained.get(title)
        if optimizer is None:
            params = [x.w, x.k, x.table]
            fused = {"fused": True} if theirs in ("SGD", "Adam", "AdamW") else {}
            optimizer = x.trained[title] = getattr(lib.optim, theirs)(params, **options, **fused)
        x.w.grad, x.k.grad, x.table.grad = x.a, x.v, x.b
        optimizer.step()
        return None

    def begin(lib: Any, params: list) -> Any:
        return lib.ml.adam_init(params) if "adam" in ours else None

    title = f"{ours}, {options}"
    return in_cudamath, in_torch


def training(lib: Any, x: Any, loss: Any) -> object:
    """A step of training: loss, gradients and AdamW, in cudamath."""
    params = [x.w, x.k]
    value, grads = lib.value_and_grad(lambda params: loss(lib.ml, (x, *params)))(params)
    state = x.trained.get("training")
    _, x.trained["training"] = lib.ml.adamw_update(
        params, grads, lib.ml.adam_init(params) if state is None else state, lr=1e-4
    )
    return value


def training_in_torch(lib: Any, x: Any, loss: Any) -> object:
    """The same in PyTorch."""
    optimizer = x.trained.get("training")
    if optimizer is None:
        optimizer = x.trained["training"] = lib.optim.AdamW([x.w, x.k], lr=1e-4, fused=True)
    optimizer.zero_grad()
    value = loss(lib.nn.functional, (x, x.w, x.k))
    value.backward()
    optimizer.step()
    return value.detach()


def classified(F: Any, arguments: Any) -> Any:
    """Cross entropy of a linear layer and a relu."""
    x, w, k = arguments
    return F.cross_entropy(F.relu(F.linear(x.a, w, k)), x.classes)


def clipped(lib: Any, x: Any) -> object:
    """Gradients scaled down to a norm of one, which PyTorch does in place."""
    x.w.grad, x.k.grad, x.table.grad = x.a, x.v, x.b
    return lib.nn.utils.clip_grad_norm_([x.w, x.k, x.table], 1.0)


CALLS: dict[str, Pair] = {
    "grad of (w * w).sum()": gradient("w", ours=lambda lib, x, w: (w * w).sum()),
    "grad of (w ** 2).mean()": gradient("w", ours=lambda lib, x, w: (w**2).mean()),
    "grad of exp(w).sum()": gradient("w", ours=lambda lib, x, w: lib.exp(w).sum()),
    "grad of w.sum()": gradient("w", ours=lambda lib, x, w: w.sum()),
    "grad of (w + a).mean()": gradient("w", ours=lambda lib, x, w: (w + x.a).mean()),
    "grad of (w * k).sum(), both": gradient("w", "k", ours=lambda lib, x, w, k: (w * k).sum()),
    "grad of (w @ table).sum()": gradient(
        "w", "table", ours=lambda lib, x, w, table: (w @ table).sum()
    ),
    "grad of w.max()": gradient("w", ours=lambda lib, x, w: w.max()),
    "grad of sqrt((w ** 2).sum())": gradient("w", ours=lambda lib, x, w: lib.sqrt((w**2).sum())),
    "grad of w[places].sum()": gradient("w", ours=lambda lib, x, w: w[x.places].sum()),
    "grad of w[1:].sum()": gradient("w", ours=lambda lib, x, w: w[1:].sum()),
    "grad of where(mask, w, 0).sum()": gradient(
        "w", ours=lambda lib, x, w: lib.where(x.mask, w, 0.0).sum()
    ),
    "grad of clip(w, 0.2, 0.8).sum()": gradient(
        "w", ours=lambda lib, x, w: lib.clip(w, 0.2, 0.8).sum()
    ),
    "grad of concat([w, w]).sum()": gradient(
        "w", ours=lambda lib, x, w: lib.concatenate([w, w]).sum()
    ),
    "grad of reshape, T": gradient("w", ours=lambda lib, x, w: (w.reshape(32, 128).T * 2.0).sum()),
    "grad of var(w)": gradient("w", ours=lambda lib, x, w: lib.var(w)),
    "grad of tanh(w @ k).sum()": gradient(
        "w", "k", ours=lambda lib, x, w, k: lib.tanh(w @ k).sum()
    ),
    "grad of cumsum(w, 1).sum()": gradient("w", ours=lambda lib, x, w: lib.cumsum(w, 1).sum()),
    "grad of mse_loss(w, a)": gradient(
        "w",
        ours=lambda lib, x, w: lib.ml.mse_loss(w, x.a),
        theirs=lambda lib, x, w: lib.nn.functional.mse_loss(w, x.a),
    ),
    "grad of cross_entropy(w, classes)": gradient(
        "w",
        ours=lambda lib, x, w: lib.ml.cross_entropy(w, x.classes),
        theirs=lambda lib, x, w: lib.nn.functional.cross_entropy(w, x.classes),
    ),
    "grad of l1_loss(w, a)": gradient(
        "w",
        ours=lambda lib, x, w: lib.ml.l1_loss(w, x.a),
        theirs=lambda lib, x, w: lib.nn.functional.l1_loss(w, x.a),
    ),
    "grad of bce_with_logits(w, chances)": gradient(
        "w",
        ours=lambda lib, x, w: lib.ml.binary_cross_entropy_with_logits(w, x.chances),
        theirs=lambda lib, x, w: lib.nn.functional.binary_cross_entropy_with_logits(w, x.chances),
    ),
    "grad of relu(w)": layers("w", ours=lambda F, x, w: F.relu(w)),
    "grad of gelu(w)": layers("w", ours=lambda F, x, w: F.gelu(w)),
    "grad of sigmoid(w)": layers("w", ours=lambda F, x, w: F.sigmoid(w)),
    "grad of softmax(w) * a": layers("w", ours=lambda F, x, w: F.softmax(w, -1) * x.a),
    "grad of log_softmax(w) * a": layers("w", ours=lambda F, x, w: F.log_softmax(w, -1) * x.a),
    "grad of linear(a, w, k)": layers("w", "k", ours=lambda F, x, w, k: F.linear(x.a, w, k)),
    "grad of linear(table, w, k)": layers(
        "table", "w", "k", ours=lambda F, x, table, w, k: F.linear(table, w, k)
    ),
    "grad of relu(linear(a, w, k))": layers(
        "w", "k", ours=lambda F, x, w, k: F.relu(F.linear(x.a, w, k))
    ),
    "grad of layer_norm(w, k, k)": layers(
        "w", "k", ours=lambda F, x, w, k: F.layer_norm(w, (64,), k, k)
    ),
    "grad of rms_norm(w, k)": layers("w", "k", ours=lambda F, x, w, k: F.rms_norm(w, (64,), k)),
    "grad of batch_norm(photos)": layers(
        "photos",
        "scales",
        ours=lambda F, x, photos, scales: F.batch_norm(
            photos, None, None, scales, scales, training=True
        )[0],
        theirs=lambda F, x, photos, scales: F.batch_norm(photos, None, None, scales, scales, True),
    ),
    "grad of group_norm(photos)": layers(
        "photos",
        "scales",
        ours=lambda F, x, photos, scales: F.group_norm(photos, 2, scales, scales),
    ),
    "grad of conv2d(images, filters, scales)": layers(
        "filters",
        "scales",
        ours=lambda F, x, filters, scales: F.conv2d(x.images, filters, scales, padding=1),
    ),
    "grad of conv2d(photos, filters)": layers(
        "photos", "filters", ours=lambda F, x, photos, filters: F.conv2d(photos, filters, padding=1)
    ),
    "grad of conv2d(photos, filters, stride)": layers(
        "photos",
        "filters",
        "scales",
        ours=lambda F, x, *arrays: F.conv2d(*arrays, stride=2, padding=1),
    ),
    "grad of conv1d(batches, threads, stride)": layers(
        "batches", "threads", ours=lambda F, x, *arrays: F.conv1d(*arrays, stride=2)
    ),
    "grad of conv3d(films, blocks, stride)": layers(
        "films",
        "blocks",
        "scales",
        ours=lambda F, x, *arrays: F.conv3d(*arrays, stride=2, padding=1),
    ),
    "grad of conv_transpose2d(photos, filters, stride)": layers(
        "photos",
        "filters",
        "scales",
        ours=lambda F, x, *arrays: F.conv_transpose2d(*arrays, stride=2),
    ),
    "grad of conv_transpose3d(films, blocks, stride)": layers(
        "films", "blocks", ours=lambda F, x, *arrays: F.conv_transpose3d(*arrays, stride=2)
    ),
    "grad of max_pool2d(photos, 2)": layers(
        "photos", ours=lambda F, x, photos: F.max_pool2d(photos, 2)
    ),
    "grad of avg_pool2d(photos, 2)": layers(
        "photos", ours=lambda F, x, photos: F.avg_pool2d(photos, 2)
    ),
    "grad of embedding(places, table)": layers(
        "table", ours=lambda F, x, table: F.embedding(x.places, table)
    ),
    "grad of attention(photos)": layers(
        "photos", ours=lambda F, x, photos: F.scaled_dot_product_attention(photos, photos, photos)
    ),
    "grad of dropout(w, 0.1), random": layers("w", ours=lambda F, x, w: F.dropout(w, 0.1)),
    "sgd_update, step": step("sgd_update", "SGD", lr=1e-4),
    "sgd_update, momentum, step": step("sgd_update", "SGD", lr=1e-4, momentum=0.9),
    "adam_update, step": step("adam_update", "Adam", lr=1e-4),
    "adamw_update, step": step("adamw_update", "AdamW", lr=1e-4),
    "rmsprop_update, step": step("rmsprop_update", "RMSprop", lr=1e-4),
    "adagrad_update, step": step("adagrad_update", "Adagrad", lr=1e-4),
    "clip_grad_norm": (lambda lib, x: lib.ml.clip_grad_norm([x.a, x.v, x.b], 1.0), clipped),
    "linear, relu, cross_entropy, AdamW: a step of training": (
        lambda lib, x: training(lib, x, classified),
        lambda lib, x: training_in_torch(lib, x, classified),
    ),
}
