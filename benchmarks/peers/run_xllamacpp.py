"""The llama.cpp inside of the `xllamacpp` wheel, driven by run_llama.py.

The wheel's extension exports llama.cpp's C API, but comes with no bindings of it: those that run_llama.py uses are
declared here. The parameter structs are passed by value and longer than what is declared of them, so `rest` leaves
room; llama.cpp fills it with its defaults.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import POINTER, c_bool, c_char_p, c_int, c_int8, c_int32, c_ubyte, c_uint32, c_void_p
from types import ModuleType
from typing import Any

import xllamacpp

REST = 512  # bytes, more than either struct has left


class ModelParams(ctypes.Structure):
    _fields_ = [
        ("devices", c_void_p),
        ("tensor_buft_overrides", c_void_p),
        ("n_gpu_layers", c_int32),
        ("rest", c_ubyte * REST),
    ]


class ContextParams(ctypes.Structure):
    _fields_ = [
        *((name, c_uint32) for name in ("n_ctx", "n_batch", "n_ubatch", "n_seq_max", "n_rs_seq")),
        ("n_outputs_max", c_uint32),
        ("n_outputs_max_per_seq", c_uint32),
        ("n_threads", c_int32),
        ("n_threads_batch", c_int32),
        ("rest", c_ubyte * REST),
    ]


class Batch(ctypes.Structure):
    _fields_ = [
        ("n_tokens", c_int32),
        ("token", POINTER(c_int32)),
        ("embd", c_void_p),
        ("pos", POINTER(c_int32)),
        ("n_seq_id", POINTER(c_int32)),
        ("seq_id", POINTER(POINTER(c_int32))),
        ("logits", POINTER(c_int8)),
    ]


FUNCTIONS: dict[str, tuple[Any, ...]] = {  # what it returns, what it takes
    "llama_backend_init": (None,),
    "llama_log_set": (None, c_void_p, c_void_p),
    "llama_print_system_info": (c_char_p,),
    "llama_model_default_params": (ModelParams,),
    "llama_model_load_from_file": (c_void_p, c_char_p, ModelParams),
    "llama_model_free": (None, c_void_p),
    "llama_model_get_vocab": (c_void_p, c_void_p),
    "llama_vocab_n_tokens": (c_int32, c_void_p),
    "llama_context_default_params": (ContextParams,),
    "llama_init_from_model": (c_void_p, c_void_p, ContextParams),
    "llama_free": (None, c_void_p),
    "llama_get_memory": (c_void_p, c_void_p),
    "llama_memory_clear": (None, c_void_p, c_bool),
    "llama_memory_seq_pos_max": (c_int32, c_void_p, c_int32),
    "llama_memory_seq_rm": (c_bool, c_void_p, c_int32, c_int32, c_int32),
    "llama_batch_init": (Batch, c_int32, c_int32, c_int32),
    "llama_batch_free": (None, Batch),
    "llama_decode": (c_int32, c_void_p, Batch),
    "llama_synchronize": (None, c_void_p),
}


def bindings() -> ModuleType:
    """What stands in for the `llama_cpp` that run_llama.py imports."""
    library = ctypes.CDLL(xllamacpp.xllamacpp.__file__)
    api = ModuleType("llama_cpp")
    for name, (returned, *taken) in FUNCTIONS.items():
        function = library[name]
        function.restype, function.argtypes = returned, taken
        setattr(api, name, function)
    api.llama_log_callback = ctypes.CFUNCTYPE(None, c_int, c_char_p, c_void_p)  # type: ignore[attr-defined]
    api.__version__ = xllamacpp.__version__  # type: ignore[attr-defined]
    chosen = api.llama_context_default_params()
    if (chosen.n_ctx, chosen.n_ubatch, chosen.n_seq_max, chosen.n_threads) != (512, 512, 1, 4):
        raise SystemExit("this llama.cpp lays out its parameters differently: put run_xllamacpp.py right")
    return api


if __name__ == "__main__":
    sys.modules["llama_cpp"] = bindings()
    import run_llama

    run_llama.main("xllamacpp")
