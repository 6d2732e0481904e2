"""Token-by-token generation of GPT-2 with 16-, 8- and 4-bit weights: loss and tokens per second.

    python -m benchmarks.decode_gpt2 tests/data/tinyshakespeare.txt --json gpt2_decode.json

The model is first trained for some steps on the bytes of the text, because the quantization of
random initial weights says nothing. The loss is that of sequences of the text. Then each kind of
weights generates at batch size 1, with a cache of keys and values and one CUDA graph per token. The
kinds take turns in random order, all at the same position of their sequences.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import statistics
import sys
import time
from typing import Any

import numpy as np

import cudamath as cm
from benchmarks.run import environment
from benchmarks.train_gpt2 import batches
from cudamath import ml
from cudamath.models import gpt2, quantized, sampling, training

#: Name -> dtype and options of `quantized.quantize`.
WEIGHTS: dict[str, tuple[str, dict[str, Any]]] = {
    "int8": ("int8", {}),
    "float8_e4m3": ("float8_e4m3", {}),
    "int4, groups of 128": ("int4", {}),
    "int4, groups of 64": ("int4", {"group": 64}),
}
PROMPT, WARM = 8, 8  # tokens


def trained(config: gpt2.Config, data: list, device: str) -> dict[str, Any]:
    """Parameters in bfloat16 after a step on each batch."""
    with cm.device(device):
        trainer = training.Trainer(
            gpt2.loss, gpt2.create(config), config, schedule=ml.schedules.constant(6e-4, warmup=10)
        )
        for pair in data:
            loss, _ = trainer.step(*pair)
    print(f"trained for {len(data)} steps, loss {float(loss):.4f}", flush=True)
    return trainer.copies


def mean_loss(params: dict[str, Any], data: list, config: gpt2.Config) -> float:
    """Cross entropy of the next tokens, by the products that writing uses."""
    losses = []
    for tokens, targets in data:
        scores = gpt2.logits(params, gpt2.forward(params, cm.asarray(tokens), config), config)
        losses.append(
            float(
                ml.cross_entropy(
                    scores.reshape((-1, config.vocabulary)).astype("float32"),
                    cm.asarray(targets).reshape((-1,)),
                )
            )
        )
    return statistics.mean(losses)


def measure(
    params: dict[str, Any],
    config: gpt2.Config,
    prompt: np.ndarray,
    data: list,
    count: int,
    rounds: int,
) -> list[dict[str, Any]]:
    """A row for each kind of weights."""
    kinds = {
        "bfloat16": params,
        **{
            name: quantized.quantize(params, dtype, **more)
            for name, (dtype, more) in WEIGHTS.items()
        },
    }
    writers: dict[str, sampling.Writer] = {}
    rows: list[dict[str, Any]] = []
    for name, weights in kinds.items():
        loss = mean_loss(weights, data, config)
        writers[name] = sampling.Writer(weights, config, temperature=0)
        writers[name].feed(prompt)
        writers[name].write(WARM)
        read = sum(
            x.nbytes
            for key, x in weights.items()
            if key != "wte.weight" or "lm_head.weight" not in weights
        )
        rows.append({"weights": name, "loss": loss, "bytes": int(read), "seconds": []})
    order = list(range(len(rows)))
    for _ in range(rounds):
        random.shuffle(order)
        for i in order:
            began = time.perf_counter()
            writers[rows[i]["weights"]].write(count).to_numpy()
            rows[i]["seconds"].append((time.perf_counter() - began) / count)
    for row in rows:
        row["tokens_per_second"] = 1 / statistics.median(row["seconds"])
        row["change"] = row["loss"] / rows[0]["loss"] - 1
        print(
            f"{row['weights']:20} {row['tokens_per_second']:7.0f} tokens/s  loss "
            f"{row['loss']:.5f} ({row['change']:+.3%})  "
            f"{row['bytes'] / 1e6:.0f} MB",
            flush=True,
        )
    return rows


def main(argv: list[str] | None = None) -> int:
    """The command line; see the top of this file."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.decode_gpt2", description="GPT-2 with quantized weights."
    )
    parser.add_argument("text", help="a file")
    parser.add_argument("--size", default="124m", choices=[*gpt2.SIZES])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=60, help="of training")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=150, help="written in a turn")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", help="write the figures there")
    arguments = parser.parse_args(argv)
    config = gpt2.SIZES[arguments.size]
    data = batches(config, arguments.batch, config.context, arguments.steps + 2, arguments.text)
    params = trained(config, data[:-2], arguments.device)
    with cm.device(arguments.device):
        rows = measure(
            params,
            config,
            data[0][0][:1, :PROMPT].astype(np.int64),
            data[-2:],
            arguments.tokens,
            arguments.rounds,
        )
    if arguments.json:
        record = {
            **environment(arguments.device),
            "size": arguments.size,
            "steps": arguments.steps,
            "rows": rows,
        }
        pathlib.Path(arguments.json).write_text(json.dumps(record, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
