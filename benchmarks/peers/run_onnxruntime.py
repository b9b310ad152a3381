"""onnxruntime-genai. Its interpreter also needs onnx-ir, torch, transformers and gguf.

It reads no quantized GGUF: transformers dequantizes the file, and onnxruntime-genai's own builder makes an ONNX model
of it, once, in a folder beside the file. Only two types stay what they were: Q4_0, whose blocks are those of the
builder's int4, and bf16, as float32 (it has no bf16 on a CPU).
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import onnxruntime_genai as genai
from commands import UnableError, answer

PRECISIONS = {"Q4_0": "int4", "BF16": "fp32"}


def types(path: Path) -> set[str]:
    """Of the file's matrices."""
    import gguf

    return {tensor.tensor_type.name for tensor in gguf.GGUFReader(path).tensors if len(tensor.shape) > 1}


def converted(path: Path) -> Path:
    """The folder with the ONNX model."""
    found = types(path)
    if len(found) != 1 or not found <= PRECISIONS.keys():
        raise UnableError("only pure Q4_0 and bf16 files keep their weights")
    precision = PRECISIONS[found.pop()]
    made = path.resolve().with_suffix(f".onnx-{precision}")
    if not (made / "genai_config.json").exists():
        import transformers

        plain = made / "plain"
        given: dict[str, Any] = {"gguf_file": path.resolve().name}
        folder = path.resolve().parent
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="float32", **given)
        model.hf_quantizer = None  # its weights are plain, though it does not say so
        vars(model.config).pop("quantization_config", None)
        model.save_pretrained(plain)
        transformers.AutoTokenizer.from_pretrained(folder, **given).save_pretrained(plain)
        command = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", plain, "-o", made, "-p", precision]
        command += ["-e", "cpu", "-c", made / "cache", "--extra_options", "block_size=32", "is_symmetric=true"]
        subprocess.run(command, check=True, stdout=sys.stderr)
        shutil.rmtree(plain)
    return made


class Model:
    """A loaded model. Every call begins with an empty context."""

    def __init__(self, path: str, *, context: int, streams: int, threads: int) -> None:
        folder = converted(Path(path))
        config = genai.Config(str(folder))
        session = {"intra_op_num_threads": threads}
        config.overlay(json.dumps({"model": {"decoder": {"session_options": session}}}))
        self.model = genai.Model(config)
        self.vocab = json.loads((folder / "genai_config.json").read_text("utf-8"))["model"]["vocab_size"]
        self.most = context + 1

    def close(self) -> None:
        del self.model

    def prompt(self, tokens: int) -> float:
        generator = self._generator(1)
        ids = self._ids(1, tokens)
        begin = time.perf_counter()
        generator.append_tokens(ids)
        return time.perf_counter() - begin

    def decode(self, streams: int, context: int, steps: int) -> float:
        """Seconds for so many steps after the prompts, with its own greedy choice of the next token."""
        generator = self._generator(streams)
        generator.append_tokens(self._ids(streams, context))
        generator.generate_next_token()  # only chooses: the prompt's logits are there
        begin = time.perf_counter()
        for _ in range(steps):
            generator.generate_next_token()
        return time.perf_counter() - begin

    def _ids(self, streams: int, tokens: int) -> list[list[int]]:
        return [[random.randrange(self.vocab) for _ in range(tokens)] for _ in range(streams)]

    def _generator(self, streams: int) -> Any:
        params = genai.GeneratorParams(self.model)
        params.set_search_options(batch_size=streams, max_length=self.most, min_length=self.most, do_sample=False)
        return genai.Generator(self.model, params)


if __name__ == "__main__":
    answer({"version": f"onnxruntime-genai {genai.__version__}", "features": ""}, Model)
