"""transformers in bfloat16. It reads the same GGUF files, dequantized."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
import transformers
from commands import answer


class Model:
    """A loaded model. A context is kept as a cache per call of `decode`, since transformers' caches grow."""

    def __init__(self, path: str, *, context: int, streams: int, threads: int) -> None:
        torch.set_num_threads(threads)
        file = Path(path)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            file.parent, gguf_file=file.name, dtype=torch.bfloat16
        ).eval()
        self.vocab = self.model.config.vocab_size
        self.filled: tuple[int, int, Any] = (0, 0, None)

    def close(self) -> None:
        del self.model

    @torch.inference_mode()
    def prompt(self, tokens: int) -> float:
        begin = time.perf_counter()
        self.model(torch.randint(0, self.vocab, (1, tokens)), logits_to_keep=1)
        return time.perf_counter() - begin

    @torch.inference_mode()
    def decode(self, streams: int, context: int, steps: int) -> float:
        if self.filled[:2] != (streams, context):
            out = self.model(torch.randint(0, self.vocab, (streams, context)), logits_to_keep=1, use_cache=True)
            self.filled = (streams, context, out.past_key_values)
        cache = self.filled[2]
        begin = time.perf_counter()
        for _ in range(steps):
            self.model(torch.randint(0, self.vocab, (streams, 1)), past_key_values=cache, use_cache=True)
        seconds = time.perf_counter() - begin
        cache.crop(-steps)
        return seconds


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    version = f"transformers {transformers.__version__}, torch {torch.__version__}"
    answer({"version": version, "features": "bf16"}, Model)
