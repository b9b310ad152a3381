"""llama.cpp, driven through its C API.

Run by compare.py with an interpreter that has `llama-cpp-python` built from source on this machine. Needs nothing of
cutaway. The Python class of that package costs up to 9 % on a small model, so batches are made once and given to
`llama_decode`.
"""

from __future__ import annotations

import ctypes
import random
import time
from collections.abc import Sequence
from typing import Any

import llama_cpp as api
from commands import UnableError, answer

UBATCH = 512
FTYPES = {"Q4_0": 2, "BF16": 32}  # llama.h's llama_ftype


class Model:
    """A loaded model and its context."""

    def __init__(self, path: str, *, context: int, streams: int, threads: int) -> None:
        params = api.llama_model_default_params()
        params.n_gpu_layers = 0
        self.model = api.llama_model_load_from_file(path.encode(), params)
        if not self.model:
            raise UnableError(f"llama.cpp cannot load {path}")
        self.vocab = api.llama_vocab_n_tokens(api.llama_model_get_vocab(self.model))
        chosen = api.llama_context_default_params()
        chosen.n_ctx = context * streams
        chosen.n_batch = max(UBATCH, 2048)
        chosen.n_ubatch = UBATCH
        chosen.n_seq_max = streams
        chosen.n_threads = chosen.n_threads_batch = threads
        self.context = api.llama_init_from_model(self.model, chosen)
        if not self.context:
            raise SystemExit("llama.cpp makes no context of that size")
        self.memory = api.llama_get_memory(self.context)

    def close(self) -> None:
        api.llama_free(self.context)
        api.llama_model_free(self.model)

    def prompt(self, tokens: int) -> float:
        """Seconds for a prompt in an empty context; logits of its last token."""
        api.llama_memory_clear(self.memory, True)
        batches = [
            self._batch([(p, 0) for p in range(a, min(a + 2048, tokens))], last=a + 2048 >= tokens)
            for a in range(0, tokens, 2048)
        ]
        return self._timed(batches)

    def decode(self, streams: int, context: int, steps: int) -> float:
        """Seconds for so many steps of all streams after a context, which is filled when it is not there."""
        filled = all(api.llama_memory_seq_pos_max(self.memory, s) >= context - 1 for s in range(streams))
        if not filled:
            api.llama_memory_clear(self.memory, True)
            for stream in range(streams):
                for a in range(0, context, 2048):
                    self._timed([self._batch([(p, stream) for p in range(a, min(a + 2048, context))], last=False)])
        for stream in range(streams):
            api.llama_memory_seq_rm(self.memory, stream, context, -1)
        batches = [self._batch([(context + i, s) for s in range(streams)], every=True) for i in range(steps)]
        return self._timed(batches)

    def _batch(self, places: Sequence[tuple[int, int]], *, last: bool = False, every: bool = False) -> Any:
        """Random tokens at (position, stream)."""
        batch = api.llama_batch_init(len(places), 0, 1)
        draw = random.Random(len(places))
        batch.n_tokens = len(places)
        for i, (position, stream) in enumerate(places):
            batch.token[i] = draw.randrange(self.vocab)
            batch.pos[i] = position
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = stream
            batch.logits[i] = every or (last and i + 1 == len(places))
        return batch

    def _timed(self, batches: list[Any]) -> float:
        begin = time.perf_counter()
        for batch in batches:
            if status := api.llama_decode(self.context, batch):
                raise SystemExit(f"llama_decode says {status}")
        api.llama_synchronize(self.context)
        seconds = time.perf_counter() - begin
        for batch in batches:
            api.llama_batch_free(batch)
        return seconds


def quantize(source: str, target: str, type: str, threads: int) -> None:
    """A file with every matrix of that type, made by llama.cpp from another file."""
    params = api.llama_model_quantize_default_params()
    params.ftype, params.pure, params.allow_requantize, params.nthread = FTYPES[type], True, True, threads
    if status := api.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(params)):
        raise SystemExit(f"llama_model_quantize says {status}")


def main(package: str = "llama-cpp-python") -> None:
    quiet = api.llama_log_callback(lambda level, text, data: None)
    api.llama_log_set(quiet, ctypes.c_void_p(0))
    api.llama_backend_init()
    features = api.llama_print_system_info().decode()
    answer({"version": f"{package} {api.__version__}", "features": features}, Model, quantize=quantize)


if __name__ == "__main__":
    main()
