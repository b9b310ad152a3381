"""transformers in bfloat16, with the same commands as run_llama.py. It reads the same GGUF files, dequantized."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
import transformers


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

    def prompt(self, tokens: int) -> float:
        begin = time.perf_counter()
        self.model(torch.randint(0, self.vocab, (1, tokens)), logits_to_keep=1)
        return time.perf_counter() - begin

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


def main() -> None:
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    model: Model | None = None
    for line in sys.stdin:
        command = json.loads(line)
        do, answer = command.pop("do"), {}
        with torch.inference_mode():
            if do == "about":
                answer = {
                    "version": f"transformers {transformers.__version__}, torch {torch.__version__}",
                    "features": "",
                }
            elif do == "load":
                model = None
                model = Model(**command)
            else:
                assert model is not None
                answer = {"seconds": {"prompt": model.prompt, "decode": model.decode}[do](**command)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
