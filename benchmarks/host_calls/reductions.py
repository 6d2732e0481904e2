"""Sums and other reductions, scans, sorting, sets and statistics."""

from __future__ import annotations

from .arguments import Pair, named, same

CALLS: dict[str, Pair] = {
    "a.sum()": same(lambda lib, x: x.a.sum()),
    "a.sum(1)": same(lambda lib, x: x.a.sum(1)),
    "a.mean()": same(lambda lib, x: x.a.mean()),
    "var(a)": same(lambda lib, x: lib.var(x.a)),
    "argmax(a, 1)": (lambda lib, x: lib.argmax(x.a, axis=1), lambda lib, x: lib.argmax(x.a, 1)),
    "a.max()": same(lambda lib, x: x.a.max()),
    "any(mask)": same(lambda lib, x: lib.any(x.mask)),
    "nansum(a)": same(lambda lib, x: lib.nansum(x.a)),
    "cumsum(v)": (lambda lib, x: lib.cumsum(x.v), lambda lib, x: lib.cumsum(x.v, 0)),
    "sort(a)": same(lambda lib, x: lib.sort(x.a)),
    "argsort(a)": same(lambda lib, x: lib.argsort(x.a)),
    "images.mean((2, 3))": same(lambda lib, x: x.images.mean((2, 3))),
    "cumprod(v)": (lambda lib, x: lib.cumprod(x.v), lambda lib, x: lib.cumprod(x.v, 0)),
    "searchsorted(v, v)": same(lambda lib, x: lib.searchsorted(x.v, x.v)),
    "allclose(a, b)": same(lambda lib, x: lib.allclose(x.a, x.b)),
    "std(a, 1)": (lambda lib, x: lib.std(x.a, axis=1), lambda lib, x: lib.std(x.a, 1)),
    "a.min(1)": (lambda lib, x: x.a.min(1), lambda lib, x: lib.amin(x.a, 1)),
    "prod(v)": same(lambda lib, x: lib.prod(x.v)),
    "count_nonzero(mask)": same(lambda lib, x: lib.count_nonzero(x.mask)),
    "float(a.sum())": same(lambda lib, x: float(x.a.sum())),
    "cummax(v)": (lambda lib, x: lib.cummax(x.v), lambda lib, x: lib.cummax(x.v, 0)),
    "median(a, 1)": (lambda lib, x: lib.median(x.a, axis=1), lambda lib, x: lib.median(x.a, 1)),
    "nanmedian(a)": same(lambda lib, x: lib.nanmedian(x.a)),
    "quantile(a, 0.3, 1)": (
        lambda lib, x: lib.quantile(x.a, 0.3, axis=1),
        lambda lib, x: lib.quantile(x.a, 0.3, dim=1),
    ),
    "topk(a, 5)": same(lambda lib, x: lib.topk(x.a, 5)),
    "isin(places, classes)": same(lambda lib, x: lib.isin(x.places, x.classes)),
    "bincount(classes)": same(lambda lib, x: lib.bincount(x.classes)),
    "unique(classes)": same(lambda lib, x: lib.unique(x.classes)),
    "diff(a)": same(lambda lib, x: lib.diff(x.a)),
    "cov(a)": same(lambda lib, x: lib.cov(x.a)),
    "trapezoid(a)": same(lambda lib, x: lib.trapezoid(x.a)),
    "all(mask)": same(lambda lib, x: lib.all(x.mask)),
    "max(a)": (lambda lib, x: lib.max(x.a), lambda lib, x: lib.amax(x.a)),
    "max(a, 0)": (lambda lib, x: lib.max(x.a, axis=0), lambda lib, x: lib.amax(x.a, 0)),
    "std(a)": same(lambda lib, x: lib.std(x.a)),
    "logsumexp(a)": (
        lambda lib, x: lib.log(lib.exp(x.a).sum(1)),
        lambda lib, x: lib.log(lib.exp(x.a).sum(1)),
    ),
    "cumulative_sum(a, 1)": (
        lambda lib, x: lib.cumulative_sum(x.a, axis=1),
        lambda lib, x: lib.cumsum(x.a, 1),
    ),
    "nanquantile(a, 0.3, 1)": (
        lambda lib, x: lib.nanquantile(x.a, 0.3, axis=1),
        lambda lib, x: lib.nanquantile(x.a, 0.3, dim=1),
    ),
    "unique_counts(classes)": (
        lambda lib, x: lib.unique_counts(x.classes),
        lambda lib, x: lib.unique(x.classes, return_counts=True),
    ),
    "unique_inverse(classes)": (
        lambda lib, x: lib.unique_inverse(x.classes),
        lambda lib, x: lib.unique(x.classes, return_inverse=True),
    ),
    "digitize(v, steps)": (
        lambda lib, x: lib.digitize(x.v, x.steps),
        lambda lib, x: lib.bucketize(x.v, x.steps),
    ),
    "cummin(v)": (lambda lib, x: lib.cummin(x.v), lambda lib, x: lib.cummin(x.v, 0)),
    "cumulative_prod(a, 1)": (
        lambda lib, x: lib.cumulative_prod(x.a, axis=1),
        lambda lib, x: lib.cumprod(x.a, 1),
    ),
    "histogram(v, 16)": (
        lambda lib, x: lib.histogram(x.v, 16)[0],
        lambda lib, x: lib.histc(x.v, 16),
    ),
    "array_equal(a, b)": (
        lambda lib, x: lib.array_equal(x.a, x.b),
        lambda lib, x: lib.equal(x.a, x.b),
    ),
    "percentile(a, 30, 1)": (
        lambda lib, x: lib.percentile(x.a, 30, axis=1),
        lambda lib, x: lib.quantile(x.a, 0.3, dim=1),
    ),
    "nanpercentile(a, 30, 1)": (
        lambda lib, x: lib.nanpercentile(x.a, 30, axis=1),
        lambda lib, x: lib.nanquantile(x.a, 0.3, dim=1),
    ),
    "nanmedian(a, 1)": (
        lambda lib, x: lib.nanmedian(x.a, axis=1),
        lambda lib, x: lib.nanmedian(x.a, 1),
    ),
    "unique_counts(a)": (
        lambda lib, x: lib.unique_counts(x.a),
        lambda lib, x: lib.unique(x.a, return_counts=True),
    ),
    "unique(a, inverse)": (
        lambda lib, x: lib.unique(x.a, return_inverse=True),
        lambda lib, x: lib.unique(x.a, return_inverse=True),
    ),
}
CALLS |= {f"{name}(a)": named(name, "a") for name in ("argmin", "nanmean", "corrcoef")}
CALLS |= {f"{name}(v)": named(name, "v") for name in ("gradient", "argsort", "unique")}
CALLS |= {"unique_values(a)": named("unique_values", "a", torch="unique")}
CALLS |= {
    "sum(a)": same(lambda lib, x: lib.sum(x.a)),
    "sum(a, 0)": same(lambda lib, x: lib.sum(x.a, 0)),
    "sum(a, axis=-1)": (lambda lib, x: lib.sum(x.a, axis=-1), lambda lib, x: lib.sum(x.a, dim=-1)),
    "a.sum((0, 1))": same(lambda lib, x: x.a.sum((0, 1))),
    "a.sum(1, keepdims)": (
        lambda lib, x: x.a.sum(1, keepdims=True),
        lambda lib, x: x.a.sum(1, keepdim=True),
    ),
    "a.sum(keepdims)": (
        lambda lib, x: x.a.sum(keepdims=True),
        lambda lib, x: x.a.sum((0, 1), keepdim=True),
    ),
    "a.mean(0)": same(lambda lib, x: x.a.mean(0)),
    "a.mean(-1, keepdims)": (
        lambda lib, x: x.a.mean(-1, keepdims=True),
        lambda lib, x: x.a.mean(-1, keepdim=True),
    ),
    "mean(a, (0, 1))": same(lambda lib, x: lib.mean(x.a, (0, 1))),
    "a - a.mean(1, keepdims)": (
        lambda lib, x: x.a - x.a.mean(1, keepdims=True),
        lambda lib, x: x.a - x.a.mean(1, keepdim=True),
    ),
    "a.max(1, keepdims)": (
        lambda lib, x: x.a.max(1, keepdims=True),
        lambda lib, x: x.a.amax(1, keepdim=True),
    ),
    "a.min()": same(lambda lib, x: x.a.min()),
    "max(a, (0, 1))": (
        lambda lib, x: lib.max(x.a, axis=(0, 1)),
        lambda lib, x: lib.amax(x.a, (0, 1)),
    ),
    "var(a, 1)": (lambda lib, x: lib.var(x.a, axis=1), lambda lib, x: lib.var(x.a, 1)),
    "var(a, 0, ddof 1)": (
        lambda lib, x: lib.var(x.a, axis=0, ddof=1),
        lambda lib, x: lib.var(x.a, 0, correction=1),
    ),
    "a.std(0)": same(lambda lib, x: x.a.std(0)),
    "a.var(1, keepdims)": (
        lambda lib, x: x.a.var(1, keepdims=True),
        lambda lib, x: x.a.var(1, keepdim=True),
    ),
    "std(a, (0, 1))": (
        lambda lib, x: lib.std(x.a, axis=(0, 1)),
        lambda lib, x: lib.std(x.a, (0, 1)),
    ),
    "argmax(a)": same(lambda lib, x: lib.argmax(x.a)),
    "a.argmax(1)": same(lambda lib, x: x.a.argmax(1)),
    "a.argmin(0)": same(lambda lib, x: x.a.argmin(0)),
    "argmax(a, 1, keepdims)": (
        lambda lib, x: lib.argmax(x.a, axis=1, keepdims=True),
        lambda lib, x: lib.argmax(x.a, 1, keepdim=True),
    ),
    "any(mask, 1)": same(lambda lib, x: lib.any(x.mask, 1)),
    "all(mask, 0)": same(lambda lib, x: lib.all(x.mask, 0)),
    "mask.any()": same(lambda lib, x: x.mask.any()),
    "(a > b).any()": same(lambda lib, x: (x.a > x.b).any()),
    "bool((a > b).any())": same(lambda lib, x: bool((x.a > x.b).any())),
    "(a > b).sum()": same(lambda lib, x: (x.a > x.b).sum()),
    "isnan(a).any()": same(lambda lib, x: lib.isnan(x.a).any()),
    "prod(a, 1)": same(lambda lib, x: lib.prod(x.a, 1)),
    "count_nonzero(a, 1)": same(lambda lib, x: lib.count_nonzero(x.a, 1)),
    "nansum(a, 1)": same(lambda lib, x: lib.nansum(x.a, 1)),
    "nanmean(a, 1)": same(lambda lib, x: lib.nanmean(x.a, 1)),
    "ptp(a)": (lambda lib, x: lib.ptp(x.a), lambda lib, x: lib.amax(x.a) - lib.amin(x.a)),
    "average(a)": (lambda lib, x: lib.average(x.a), lambda lib, x: lib.mean(x.a)),
    "average(a, weights=b)": (
        lambda lib, x: lib.average(x.a, weights=x.chances),
        lambda lib, x: (x.a * x.chances).sum() / x.chances.sum(),
    ),
    "(a * b).sum()": same(lambda lib, x: (x.a * x.b).sum()),
    "((a - b) ** 2).mean()": same(lambda lib, x: ((x.a - x.b) ** 2).mean()),
    "sqrt((a ** 2).sum(1))": same(lambda lib, x: lib.sqrt((x.a**2).sum(1))),
    "cumsum(a, 0)": same(lambda lib, x: lib.cumsum(x.a, 0)),
    "cumsum(a, 1)": same(lambda lib, x: lib.cumsum(x.a, 1)),
    "a.cumsum(1)": same(lambda lib, x: x.a.cumsum(1)),
    "cumprod(a, 1)": same(lambda lib, x: lib.cumprod(x.a, 1)),
    "diff(v)": same(lambda lib, x: lib.diff(x.v)),
    "diff(a, 1, 0)": (lambda lib, x: lib.diff(x.a, axis=0), lambda lib, x: lib.diff(x.a, dim=0)),
    "diff(a, 2)": same(lambda lib, x: lib.diff(x.a, 2)),
    "ediff1d(v)": (lambda lib, x: lib.ediff1d(x.v), lambda lib, x: lib.diff(x.v)),
    "gradient(a)": same(lambda lib, x: lib.gradient(x.a)),
    "sort(a, 0)": (lambda lib, x: lib.sort(x.a, axis=0), lambda lib, x: lib.sort(x.a, 0)),
    "sort(a, descending)": same(lambda lib, x: lib.sort(x.a, descending=True)),
    "a.argsort(0)": same(lambda lib, x: x.a.argsort(0)),
    "argsort(a, descending)": same(lambda lib, x: lib.argsort(x.a, descending=True)),
    "v[argsort(v)]": same(lambda lib, x: x.v[lib.argsort(x.v)]),
    "topk(v, 5)": same(lambda lib, x: lib.topk(x.v, 5)),
    "topk(a, 5, 0)": same(lambda lib, x: lib.topk(x.a, 5, 0)),
    "topk(a, 5, smallest)": same(lambda lib, x: lib.topk(x.a, 5, largest=False)),
    "median(v)": same(lambda lib, x: lib.median(x.v)),
    "median(a)": same(lambda lib, x: lib.median(x.a)),
    "quantile(v, 0.5)": same(lambda lib, x: lib.quantile(x.v, 0.5)),
    "quantile(a, [0.1, 0.9])": (
        lambda lib, x: lib.quantile(x.a, [0.1, 0.9]),
        lambda lib, x: lib.quantile(x.a, lib.tensor([0.1, 0.9], device=x.a.device)),
    ),
    "percentile(v, 90)": (
        lambda lib, x: lib.percentile(x.v, 90),
        lambda lib, x: lib.quantile(x.v, 0.9),
    ),
    "searchsorted(steps, a)": same(lambda lib, x: lib.searchsorted(x.steps, x.a)),
    "searchsorted(steps, v, right)": same(
        lambda lib, x: lib.searchsorted(x.steps, x.v, side="right")
    ),
    "bincount(classes, minlength=64)": same(lambda lib, x: lib.bincount(x.classes, minlength=64)),
    "bincount(classes, v)": same(lambda lib, x: lib.bincount(x.classes, x.v)),
    "histogram(a, 10, (0, 1))": (
        lambda lib, x: lib.histogram(x.chances, 10, (0.0, 1.0))[0],
        lambda lib, x: lib.histc(x.chances, 10, 0.0, 1.0),
    ),
    "cov(definite)": same(lambda lib, x: lib.cov(x.definite)),
    "trapezoid(v, steps)": same(lambda lib, x: lib.trapezoid(x.v, x.steps)),
    "unique(v, counts)": same(lambda lib, x: lib.unique(x.v, return_counts=True)),
    "argwhere(mask)": same(lambda lib, x: lib.argwhere(x.mask)),
    "isin(classes, [1, 2])": (
        lambda lib, x: lib.isin(x.classes, [1, 2]),
        lambda lib, x: lib.isin(x.classes, lib.tensor([1, 2], device=x.a.device)),
    ),
    "convolve(v, taps)": (
        lambda lib, x: lib.convolve(x.v, x.taps[0, 0]),
        lambda lib, x: lib.nn.functional.conv1d(
            x.v[None, None], x.taps[0, 0].flip(0)[None, None], padding=2
        )[0, 0],
    ),
    "polyval(taps, v)": (
        lambda lib, x: lib.polyval(x.taps[0, 0], x.v),
        lambda lib, x: (x.taps[0, 0, 0] * x.v + x.taps[0, 0, 1]) * x.v + x.taps[0, 0, 2],
    ),
    "a.dot(b)": (lambda lib, x: x.a.dot(x.b), lambda lib, x: x.a.mm(x.b)),
}
