"""Libraries that take any array of the Python array API: scikit-learn, SciPy, einops, opt_einsum,
Dask; each where it is there.

SciPy and scikit-learn want SCIPY_ARRAY_API=1 before they are imported, so they run in a process of
their own.
"""

from __future__ import annotations

import functools
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import cudamath as cm

ROOT = pathlib.Path(__file__).resolve().parents[2]
RNG = np.random.default_rng(0)


def run(source: str, device: str, first: str = "cudamath", begin: str = "") -> None:
    """A program with SciPy's array API switched on; `begin`: its first lines, `first`: what it
    imports before anything else."""
    environment = {
        **os.environ,
        "SCIPY_ARRAY_API": "1",
        "CUDAMATH_DEVICE": device,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    head = (
        f"{begin}\nimport {first}"
        + """
import numpy as np, cudamath as cm
rng = np.random.default_rng(0)
def same(ours, theirs, rtol=1e-10):
    assert isinstance(ours, cm.ndarray), type(ours)
    assert ours.device == cm.default_device()
    np.testing.assert_allclose(ours.to_numpy(), theirs, rtol=rtol, atol=rtol)
"""
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", head + source],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]


SKLEARN = """
import sklearn
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_squared_error, r2_score
from sklearn.preprocessing import MinMaxScaler
x = rng.standard_normal((80, 6)) @ rng.standard_normal((6, 6))
y = x @ np.arange(6.0) + 1
pca, ridge = PCA(n_components=3, svd_solver="full").fit(x), Ridge(solver="svd").fit(x, y)
with sklearn.config_context(array_api_dispatch=True):
    ours = PCA(n_components=3, svd_solver="full").fit(cm.asarray(x))
    same(ours.components_, pca.components_)
    same(ours.transform(cm.asarray(x)), pca.transform(x))
    parts = ours.transform(cm.asarray(x))
    same(ours.inverse_transform(parts), pca.inverse_transform(pca.transform(x)))
    fitted = Ridge(solver="svd").fit(cm.asarray(x), cm.asarray(y))
    same(fitted.coef_, ridge.coef_)
    same(fitted.predict(cm.asarray(x)), ridge.predict(x))
    same(MinMaxScaler().fit_transform(cm.asarray(x)), MinMaxScaler().fit_transform(x))
    score = r2_score(cm.asarray(y), fitted.predict(cm.asarray(x)))
    assert abs(score - r2_score(y, ridge.predict(x))) < 1e-12
    assert mean_squared_error(cm.asarray(y), cm.asarray(y)) == 0
"""

SCIPY = """
import scipy.cluster.vq as vq, scipy.fft as fft, scipy.special as special, scipy.stats as stats
x = rng.standard_normal((40, 5))
a = cm.asarray(x)
same(special.logsumexp(a, axis=1), special.logsumexp(x, axis=1))
same(special.softmax(a, axis=1), special.softmax(x, axis=1))
same(stats.zscore(a), stats.zscore(x))
same(stats.skew(a), stats.skew(x))
same(stats.kurtosis(a, axis=1), stats.kurtosis(x, axis=1))
same(stats.variation(a + 9), stats.variation(x + 9))
same(stats.pearsonr(a[:, 0], a[:, 1]).statistic, stats.pearsonr(x[:, 0], x[:, 1]).statistic)
same(stats.ttest_1samp(a, 0.25).statistic, stats.ttest_1samp(x, 0.25).statistic)
same(fft.fft(a), fft.fft(x))
same(fft.irfft(fft.rfft(a, axis=0), axis=0), x)
same(vq.whiten(a), vq.whiten(x))
"""


@pytest.mark.parametrize("name", ["sklearn", "scipy"])
def test_in_a_process_of_its_own(device, name):
    pytest.importorskip(name)
    run({"sklearn": SKLEARN, "scipy": SCIPY}[name], device)


def test_einops(device):
    """einops takes arrays of the array API through `einops.array_api`."""
    einops = pytest.importorskip("einops.array_api")
    x = RNG.standard_normal((2, 6, 4))
    a = cm.asarray(x)
    turned = x.reshape(2, 2, 3, 4).transpose(3, 0, 1, 2).reshape(4, 4, 3)
    for ours, theirs in (
        (einops.rearrange(a, "a (b h) c -> c (a b) h", h=3), turned),
        (einops.reduce(a, "a b c -> a c", "mean"), x.mean(1)),
        (einops.reduce(a, "a b c -> b", "max"), x.max((0, 2))),
        (einops.repeat(a, "a b c -> a b c k", k=2), np.repeat(x[..., None], 2, -1)),
    ):
        assert type(ours) is cm.ndarray
        np.testing.assert_allclose(ours.to_numpy(), theirs, rtol=1e-13)


EINOPS = """
import einops
x = np.arange(48.0).reshape(2, 6, 4)
a = cm.asarray(x)
for how in ("a (b h) c -> c (a b) h", "a b c -> (a b c)", "a b (c d) -> d a b c"):
    sizes = {"h": 3} if "h" in how else {"d": 2} if "d" in how else {}
    same(einops.rearrange(a, how, **sizes), einops.rearrange(x, how, **sizes))
for name in ("sum", "mean", "max", "min", "prod"):
    same(einops.reduce(a, "a b c -> c a", name), einops.reduce(x, "a b c -> c a", name))
same(einops.repeat(a, "a b c -> a b k c", k=3), einops.repeat(x, "a b c -> a b k c", k=3))
same(*(einops.rearrange([v, v], "k a b c -> a (k b) c") for v in (a, x)))
same(einops.einsum(a, a, "a b c, a d c -> a b d"), einops.einsum(x, x, "a b c, a d c -> a b d"))
packed, shapes = einops.pack([a, a[:, 0]], "a * c")
same(packed, einops.pack([x, x[:, 0]], "a * c")[0])
same(einops.unpack(packed, shapes, "a * c")[1], x[:, 0])
slope = cm.grad(lambda v: (einops.rearrange(v, "a b c -> c b a")[0] ** 2).sum())(a)
assert (slope.to_numpy()[..., 1:] == 0).all()
"""


@pytest.mark.parametrize("first", ["cudamath", "einops"])
def test_einops_itself(device, first):
    """`einops.rearrange` and the rest, whichever of the two is imported first."""
    pytest.importorskip("einops")
    run(EINOPS, device, first)


def test_einops_found_by_others(device):
    """Finders that were there first, as those of editable installations, find einops as well."""
    pytest.importorskip("einops")
    finder = """
import importlib.abc
import importlib.machinery
import sys

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.PathFinder.find_spec(name, path, target)

sys.meta_path.insert(0, Finder())
"""
    run(EINOPS, device, begin=finder)


def test_opt_einsum(device):
    opt_einsum = pytest.importorskip("opt_einsum")
    xs = [RNG.standard_normal(s) for s in ((3, 4), (4, 5, 2), (5, 6), (2,))]
    ours = opt_einsum.contract("ij,jkl,km,l->im", *[cm.asarray(x) for x in xs])
    assert type(ours) is cm.ndarray
    np.testing.assert_allclose(
        ours.to_numpy(), np.einsum("ij,jkl,km,l->im", *xs), rtol=1e-12, atol=1e-12
    )


def test_array_api_compat(device):
    compat = pytest.importorskip("array_api_compat")
    x = cm.zeros(3)
    assert (
        compat.is_array_api_obj(x)
        and compat.array_namespace(x).__name__ == "cudamath"
        and compat.device(x) == device
    )
    assert compat.size(x) == 3 and compat.to_device(x, "cpu").device == "cpu"


def test_array_api_extra(device):
    extra = pytest.importorskip("array_api_extra")
    x = cm.asarray(RNG.standard_normal((3, 8)))
    np.testing.assert_allclose(extra.cov(x).to_numpy(), np.cov(x.to_numpy()), rtol=1e-12)
    assert extra.nunique(cm.asarray([1, 2, 2, 5])).item() == 3
    np.testing.assert_array_equal(extra.at(cm.arange(4))[1:3].add(5).to_numpy(), [0, 6, 7, 3])


DASK = {
    "elementwise": lambda x: np.exp(x) + 2 * x,
    "sum": lambda x: x.sum(),
    "mean": lambda x: x.mean(axis=1),
    "deviation": lambda x: (x - x.mean(axis=0)).std(axis=0),
    "largest": lambda x: x.max(axis=0),
    "place": lambda x: x.argmax(axis=1),
    "product": lambda x: x.T @ x,
    "slice": lambda x: x[10:45, ::3],
    "side by side": lambda x: np.concatenate([x, x], axis=1),
    "choice": lambda x: np.where(x > 0, x, 0),
    "mask": lambda x: x[x > 0].sum(),
    "running sum": lambda x: np.cumsum(x, axis=0),
    "shape": lambda x: x.reshape(-1),
}


@pytest.mark.parametrize("name", DASK)
def test_dask(device, name):
    """An array in chunks, each of them ours, none larger than a quarter of it: larger than a GPU or
    a machine if need be."""
    dask = pytest.importorskip("dask")
    da = pytest.importorskip("dask.array")
    host = RNG.standard_normal((60, 50))
    chunks = da.from_array(host, chunks=(30, 25)).map_blocks(
        functools.partial(cm.asarray, device=device), meta=cm.empty((0, 0), device=device)
    )
    with dask.config.set(scheduler="threads", num_workers=2):
        result = DASK[name](chunks).compute()
    assert device == "cpu" or isinstance(result, cm.ndarray) and result.device == device
    np.testing.assert_allclose(np.asarray(result), DASK[name](host), rtol=1e-12, atol=1e-12)
