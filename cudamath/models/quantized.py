"""Language models with weights of 8 or 4 bits, for writing text.

A model that writes one token at a time reads all its weights for each: half the bytes are nearly
half the time. Only matrices of products are quantized, which hold nearly all the numbers;
`ml.linear` takes them as they are. The table of tokens is looked up row by row and stays; what it
is multiplied by at the end, the tied head, becomes a quantized copy of it.
"""

from __future__ import annotations

from typing import Any

from cudamath import ml

__all__ = ["quantize"]

GROUPS = (128, 64, 32)  # that int4 weights may have, if they divide a row


def quantize(
    params: dict[str, Any], dtype: str = "int8", *, group: int | None = None
) -> dict[str, Any]:
    """The parameters of gpt2.py with quantized matrices: what `sampling.Writer` and `gpt2.logits`
    take in their place.

    dtype: "int8", "float8_e4m3" or "float8_e5m2" with a scale for each row, or "int4" with one for
    each group of numbers along it. group: how many; by default none, for int4 the largest of 128,
    64 and 32 that divides every row, else a scale a row. Returns a new dict; arrays that are not
    quantized are shared. Not for training: quantized weights are constants. ValueError where a
    group does not divide a row.

    >>> import cudamath as cm
    >>> from cudamath.models import gpt2, quantized
    >>> params = gpt2.create(gpt2.SIZES["tiny"], rng=cm.random.default_rng(0))
    >>> packed = quantized.quantize(params, "int4")
    >>> packed["h.0.mlp.c_fc.weight"]
    Quantized((512, 128), int4, group=128)
    >>> packed["lm_head.weight"].nbytes / params["wte.weight"].nbytes
    0.1328125
    """
    chosen = {name: x for name, x in params.items() if name.startswith("h.") and x.ndim == 2}
    chosen["lm_head.weight"] = params.get("lm_head.weight", params["wte.weight"])
    if dtype == "int4" and group is None:
        group = next((g for g in GROUPS if not any(x.shape[1] % g for x in chosen.values())), None)
    how: dict[str, Any] = {"axis": 0} if group is None else {"group": group}
    return {**params, **{name: ml.quantize(x, dtype, **how) for name, x in chosen.items()}}
