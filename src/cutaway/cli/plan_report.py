"""A plan for people: tables, a line of bars, and a picture. Written from the same record as its JSON."""

from __future__ import annotations

from typing import Any

from cutaway.cli.terminal import write_table

UNKNOWN = "unknown"
_BAR = 16


def write(plan: dict[str, Any]) -> None:
    """Everything that the record holds."""
    from cutaway.planner import readable_bytes as size

    print(_headline(plan))
    rows = [[r["what"], r["of"], str(r["bytes"]), size(r["bytes"])] for r in plan["ledger"]]
    if plan["process_bytes"] is not None:
        tokenizer = "a process without weights" if plan["origin"] == "file" else "without the tokenizer"
        rows.append(
            ["Python and libraries", tokenizer, str(plan["process_bytes"]), size(plan["process_bytes"])]
        )  # fmt: skip
    mapped = f"beside {size(plan['mapped_bytes'])} of the file, mapped"
    rows.append(["total", mapped, str(plan["total"]), size(plan["total"])])
    write_table(["for", "", "bytes", ""], rows, right=[2, 3])
    print(f"\nkeys and values: {size(plan['kv_token_bytes'])} a token, {size(plan['kv_request_bytes'])} a request")
    _write_fit(plan, size)
    _write_contexts(plan, size)
    if plan["weights"]:
        _write_types(plan, size)
    if plan["device"]:
        _write_device(plan["device"], size)
    if plan["lengths"]:
        _write_lengths(plan["lengths"], size)
    _write_advice(plan, size)


def _headline(plan: dict[str, Any]) -> str:
    experts = f", {plan['experts']['used']} of {plan['experts']['count']} experts a token" if plan["experts"] else ""
    if plan["experts"]:
        experts += f" ({plan['active_share']:.0%} of the weights)"
    heads = f"{plan['layers']} layers, {plan['heads']} heads, {plan['kv_heads']} key-value heads"
    where = f"weights {plan['types']}, {plan['instruction_set']}, {plan['threads']} threads"
    types = f"keys {plan['kv_k']}, values {plan['kv_v']}"
    asked = f"{plan['context']} tokens of context, {plan['requests']} at once, {types}"
    return f"{plan['model']}: {heads}{experts}\n{where}\n{asked}\n"


def _write_fit(plan: dict[str, Any], size: Any) -> None:
    if plan["available"] is None:
        print("available memory: unknown")
        return
    fits = "it fits" if plan["fits"] else "it does not fit"
    print(f"{size(plan['available'])} are available: {fits}")
    own = f"(the model's own is {plan['trained_context']})"
    print(f"at most: {plan['most_context']} tokens of context for {plan['requests']} at once {own},")
    print(f"         or {plan['most_requests']} requests of {plan['context']} tokens")


def _write_contexts(plan: dict[str, Any], size: Any) -> None:
    """What a longer context costs one request."""
    latency = plan["latency"]
    print(f"\none request, by context; times: {latency['basis'] if latency else UNKNOWN}")
    rows = []
    longest = max((c["tpot_ms"]["middle"] for c in plan["contexts"] if c["tpot_ms"]), default=0.0)
    for c in plan["contexts"]:
        share = c["attention_share"]
        bar = ""
        if share is not None and longest:
            whole = round(_BAR * c["tpot_ms"]["middle"] / longest)
            bar = "#" * round(whole * (1 - share)) + "=" * (whole - round(whole * (1 - share)))
        percent = UNKNOWN if share is None else f"{share:.0%}"
        rows.append(
            [str(c["context"]), size(c["kv_bytes"]), seconds(c["ttft_ms"]), seconds(c["tpot_ms"]), percent, bar]
        )  # fmt: skip
    write_table(["context", "keys, values", "first token", "each further", "attention", ""], rows, right=range(5))
    if any(row[-1] for row in rows):
        print("bar: a further token; # weights and the rest, = attention")
    if latency is None:
        print("times need: cutaway bench calibrate MODEL")
    elif plan["requests"] > 1:
        print(f"{plan['requests']} at once: each further token {seconds(latency['tpot_ms'])}")


def _write_types(plan: dict[str, Any], size: Any) -> None:
    print("\nby type of the weights")
    rows = [
        [r["types"], size(r["file_bytes"]), size(r["weight_bytes"]), size(r["total"]), r["smallest_device"],
         rate(r["tpot_ms"], plan["requests"])]
        for r in plan["weights"]
    ]  # fmt: skip
    headings = ["weights", "in a file", "packed", "all", "smallest device", "tokens/s here"]
    write_table(headings, rows, right=range(1, 6))
    print("smallest device: weights as in the file, keys and values, and this engine's scratch")


def _write_device(device: dict[str, Any], size: Any) -> None:
    from cutaway.planner.devices import READ_SHARE

    fits = "it fits" if device["fits"] else "it does not fit"
    several = f", {size(device['largest_device_bytes'])} on the fullest" if device["count"] > 1 else ""
    whole = size(device["count"] * device["memory_bytes"])
    print(f"\n{device['device']}: {size(device['total'])} of {whole}{several}: {fits}")
    print(
        f"weights {size(device['weight_bytes'])} as in the file, keys and values {size(device['kv_bytes'])}, "
        f"scratch {size(device['scratch_bytes'])} as this\nengine's; drivers and libraries there are not counted"
    )
    if device["tpot_ms"] is None:
        print("time per token: unknown")
    else:
        print(
            f"time per token: {device['tpot_ms']:.1f} ms, assuming that a step reads what it needs once, at "
            f"{READ_SHARE:.0%} of the\nbandwidth in the data sheet, and that nothing else takes time"
        )


def _write_lengths(made: dict[str, Any], size: Any) -> None:
    print(
        f"\n{made['requests']} requests of {made['mean']:.0f} tokens in the mean, {made['median']} in the median, "
        f"{made['ninth']} at 90 %;\n{made['longer']} exceed the context; {made['skipped']} lines skipped"
    )
    rows = [
        [name, size(part["held"]), size(part["wasted"]), f"{part['wasted'] / part['held']:.0%}", str(part["requests"]),
         rate(part["tpot_ms"], part["requests"])]
        for name, part in (("whole contexts", made["contiguous"]), ("pages", made["paged"]))
    ]  # fmt: skip
    write_table(["keys and values in", "a request", "wasted", "", "at once", "tokens/s"], rows, right=range(1, 6))
    print(f"in {size(max(made['budget'], 0))} for keys and values")


def _write_advice(plan: dict[str, Any], size: Any) -> None:
    if not plan["misses"]:
        return
    if not plan["advice"]:
        print(f"\nmissed: {', '.join(plan['misses'])}; no single change reaches it")
        return
    print(f"\nmissed: {', '.join(plan['misses'])}. One of these reaches it:")
    for advice in plan["advice"]:
        figure = size(advice["total"]) if advice["total"] is not None else seconds(advice["ms"])
        print(f"  {advice['what']}: {figure}")
        for line in advice["config"]:
            print(f"      {line}")


def seconds(interval: dict[str, float] | None) -> str:
    """ "81 [76, 88] ms"."""
    if interval is None:
        return UNKNOWN
    scale, unit = (1e-3, "s") if interval["middle"] >= 10_000 else (1.0, "ms")
    digits = 1 if interval["middle"] * scale < 100 else 0
    middle, low, high = (f"{interval[k] * scale:.{digits}f}" for k in ("middle", "low", "high"))
    return f"{middle} [{low}, {high}] {unit}"


def rate(interval: dict[str, float] | None, requests: int) -> str:
    """Tokens a second of all requests together."""
    if interval is None or not requests:
        return UNKNOWN
    low, high = (requests * 1e3 / interval[k] for k in ("high", "low"))
    digits = 0 if low >= 20 else 1
    return f"{low:.{digits}f} to {high:.{digits}f}"


def picture(plan: dict[str, Any]) -> str:
    """Time per further token by context as SVG bars: weights and the rest below, attention above."""
    known = [c for c in plan["contexts"] if c["tpot_ms"] and c["attention_share"] is not None]
    top = max((c["tpot_ms"]["high"] for c in known), default=1.0)
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 360" font-family="sans-serif" font-size="13">',
        f'<text x="20" y="24">{_escaped(plan["model"])}: ms per further token, by tokens of context</text>',
    ]
    if not known:
        parts.append('<text x="20" y="60">unknown: cutaway bench calibrate</text>')
    for i, c in enumerate(known):
        x, scale = 60 + i * 560 // max(len(known), 1), 260 / top
        whole = c["tpot_ms"]["middle"] * scale
        rest = whole * (1 - c["attention_share"])
        low, high = (310 - c["tpot_ms"][k] * scale for k in ("low", "high"))
        parts += [
            f'<rect x="{x}" y="{310 - rest:.1f}" width="60" height="{rest:.1f}" fill="#4a6fa5"/>',
            f'<rect x="{x}" y="{310 - whole:.1f}" width="60" height="{whole - rest:.1f}" fill="#e07a3f"/>',
            f'<path d="M{x + 30} {low:.1f}V{high:.1f}" stroke="black"/>',
            f'<text x="{x}" y="330">{c["context"]}</text>',
            f'<text x="{x + 66}" y="{310 - whole:.1f}">{c["tpot_ms"]["middle"]:.1f}</text>',
        ]
    parts.append('<text x="20" y="352" fill="#e07a3f">attention</text>')
    parts.append('<text x="100" y="352" fill="#4a6fa5">the rest</text>')
    return "\n".join([*parts, "</svg>\n"])


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
