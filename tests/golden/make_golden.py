"""Makes the golden files with transformers, from the GGUF files of the three real models, in float32.

    python tests/golden/make_golden.py FOLDER [MODEL...]

FOLDER holds smollm2.gguf, qwen.gguf and gemma.gguf. Needs the packages torch, transformers, accelerate and gguf, about
6 GB of memory and some minutes. Run it again only to change what is kept; a diff in the files must have a reason.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from kl import FOLDER, pack

PROMPTS = {
    "smollm2": "<|im_start|>user\nExplain why the sky is blue.<|im_end|>\n<|im_start|>assistant\n",
    "qwen": "<|im_start|>user\nWrite a Python function that reverses a list.<|im_end|>\n<|im_start|>assistant\n",
    "gemma": "The history of the bicycle begins",
}
GREEDY = 64
MARGIN = 2e-3  # the two best logits of every greedy step must lie further apart than float32 rounding can move them
LONG = {"gemma": 640}  # beyond the sliding window of 512 tokens
LONG_ROWS = 32


def main() -> None:
    """Make the files of the models named on the command line, or of all."""
    folder, models = Path(sys.argv[1]), sys.argv[2:] or list(PROMPTS)
    torch.set_num_threads(2)
    for name in models:
        arrays = golden_arrays(folder, name)
        np.savez_compressed(FOLDER / f"{name}.npz", **arrays)
        print(name, (FOLDER / f"{name}.npz").stat().st_size, "bytes")


def golden_arrays(folder: Path, name: str) -> dict[str, Any]:
    """Everything that one model's file holds."""
    text = (FOLDER / "mixed_text.txt").read_text(encoding="utf-8")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=f"{name}.gguf")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=f"{name}.gguf", dtype=torch.float32)
    model.eval()
    ids = tokenizer(text)["input_ids"]
    arrays = pack("text_", ids, logits_of(model, ids))
    if name in LONG:
        long = (ids * 3)[: LONG[name]]
        arrays |= pack("long_", long, logits_of(model, long)[-LONG_ROWS:], LONG[name] - LONG_ROWS)
    prompt = tokenizer(PROMPTS[name])["input_ids"]
    return arrays | {"prompt": np.array(prompt, np.int32), "greedy": np.array(greedy(model, prompt), np.int32)}


def logits_of(model: Any, ids: list[int]) -> Any:
    """float32 [tokens, vocab]."""
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0].numpy()


def greedy(model: Any, prompt: list[int]) -> list[int]:
    """The best token, 64 times; end tokens do not end it."""
    tokens: list[int] = list(prompt)
    margin = np.inf
    for _ in range(GREEDY):
        with torch.no_grad():
            best = model(torch.tensor([tokens]), use_cache=False, logits_to_keep=1).logits[0, -1].topk(2)
        margin = min(margin, float(best.values[0] - best.values[1]))
        tokens.append(int(best.indices[0]))
    print("smallest margin", margin)
    assert margin > MARGIN, "too close to call: choose another prompt"
    return tokens[len(prompt) :]


if __name__ == "__main__":
    main()
