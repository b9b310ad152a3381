"""OpenVINO GenAI. It reads the same GGUF files, of the types it knows.

Requests are stepped by hand (`ContinuousBatchingPipeline.step`), so a step's time is that of one token of every
stream, with OpenVINO's own greedy choice of the next. Keys and values, and the type it computes in, are its defaults.
"""

from __future__ import annotations

import random
import time

import openvino
import openvino_genai
from commands import UnableError, answer

CACHE = 2  # GB of keys and values


class Model:
    """A loaded model. Every call begins with an empty context."""

    def __init__(self, path: str, *, context: int, streams: int, threads: int) -> None:
        chosen = openvino_genai.SchedulerConfig()
        chosen.cache_size = CACHE
        chosen.max_num_batched_tokens = context * streams
        chosen.max_num_seqs = streams
        chosen.enable_prefix_caching = False
        properties = {"INFERENCE_NUM_THREADS": threads}
        try:
            self.pipeline = openvino_genai.ContinuousBatchingPipeline(path, chosen, "CPU", properties)
        except RuntimeError as error:
            raise UnableError(str(error).strip().splitlines()[-1]) from error
        self.vocab = len(self.pipeline.get_tokenizer().get_vocab())
        self.requests = 0

    def close(self) -> None:
        del self.pipeline

    def prompt(self, tokens: int) -> float:
        """Seconds for a prompt in an empty context, and the choice of one token."""
        begin, _ = self._begin(1, tokens, 1)
        return time.perf_counter() - begin

    def decode(self, streams: int, context: int, steps: int) -> float:
        """Seconds for so many steps of all streams after their prompts."""
        _, handles = self._begin(streams, context, steps + 1)
        begin = time.perf_counter()
        for _ in range(steps):
            self.pipeline.step()
        seconds = time.perf_counter() - begin
        assert all(len(handle.read_all()[0].generated_ids) == steps + 1 for handle in handles)
        return seconds

    def _begin(self, streams: int, tokens: int, most: int) -> tuple[float, list[openvino_genai.GenerationHandle]]:
        """Prompts of random tokens, read in one step. When it begins, and the requests: one that is let go ends."""
        chosen = openvino_genai.GenerationConfig(max_new_tokens=most, ignore_eos=True, do_sample=False)
        handles = []
        for _ in range(streams):
            ids = openvino.Tensor([[random.randrange(self.vocab) for _ in range(tokens)]])
            handles.append(self.pipeline.add_request(self.requests, ids, chosen))
            self.requests += 1
        begin = time.perf_counter()
        self.pipeline.step()
        assert all(handle.can_read() for handle in handles), "the prompts took more than a step"
        return begin, handles


if __name__ == "__main__":
    able = openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    answer({"version": f"openvino-genai {openvino_genai.__version__}", "features": " ".join(able)}, Model)
