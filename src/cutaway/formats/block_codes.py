"""How a block of each quantized type splits into integer codes, scales and minimums.

Every type obeys one formula, in float32 and in this order, which gives the file's own values bit for bit:

    value = scale * code - minimum          (without minimum: value = scale * code)

`code` is an integer that fits int8; `scale` and `minimum` belong to a group of consecutive elements. Each function
below takes blocks, uint8 [blocks, bytes], and returns codes int8 [blocks, elements], scales float32 [blocks, groups]
and minimums (float32 [blocks, groups] or None). Its docstring gives the bytes of a block in order, with the sizes, and
how the scale is rounded: each product written with * is one float32 rounding, from the left.
f16 is IEEE half precision, little-endian; `lo(x)` and `hi(x)` are the low and high nibble.

Two departures in form, not in value: Q4_1 and Q5_1 add their minimum, so theirs is negated here (x - (-m) = x + m);
IQ1_S and IQ1_M place points at grid +/- 1/8, so their codes are eight times that and their scales an eighth (exact).

Source: ggml's block structs and dequantize_row functions, as the gguf Python package states them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cutaway.formats.bits import BITS, F32, I8, NIBBLES, PAIRS, U8, U16, U32, half, nibbles, planes, signed, u16, u32
from cutaway.formats.grids import grid

Split = tuple[I8, F32, F32 | None]

# 4-bit codes that index a table.
IQ4_VALUES = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int8)
# E2M1 (OCP microscaling formats), doubled to be whole.
E2M1_VALUES = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.int8)
# Half of the unsigned E4M3 value of each byte: 3 bits of mantissa, 4 of exponent, the top bit ignored; 0x7F is 0.
HALF_E4M3 = np.array(
    [(8 * (e > 0) + m) * 2.0 ** (max(e, 1) - 11) for _ in range(2) for e in range(16) for m in range(8)], np.float32
)
HALF_E4M3[0x7F] = 0
# Seven sign bits, and an eighth that makes their number even.
SIGN_BYTES = np.array([s | (s.bit_count() & 1) << 7 for s in range(128)], np.uint8)


def _negative(codes: I8, sign_bytes: U8) -> I8:
    """Codes [blocks, elements] with the sign that their bits say: one byte for 8 elements, lowest bit first."""
    bits = (sign_bytes.reshape(len(codes), -1, 1) >> BITS) & np.uint8(1)
    return np.where(bits.reshape(codes.shape) == 1, -codes, codes)


def _points(type: str, indexes: NDArray[np.integer]) -> I8:
    """Grid points one after another: [blocks, indexes * coordinates]."""
    points: I8 = grid(type)[indexes]
    return points.reshape(len(indexes), -1)


# --- 32 elements (Q1_0: 128, Q2_0: 64), one scale -------------------------------------------------------------------


def q1_0(b: U8) -> Split:
    """d f16 · bits 16 (lowest bit first). scale d, code +1 where the bit is set, else -1."""
    bits = (b[:, 2:, None] >> BITS) & np.uint8(1)
    return signed(bits.reshape(len(b), -1) << np.uint8(1), 1), half(b, 0), None


def q2_0(b: U8) -> Split:
    """d f16 · qs 16 (four codes a byte, lowest first). scale d, code q - 1."""
    return signed(planes(b[:, 2:], 1, PAIRS, 3), 1), half(b, 0), None


def q4_0(b: U8) -> Split:
    """d f16 · qs 16: lo(qs) are elements 0..15, hi(qs) 16..31. scale d, code q - 8."""
    return signed(planes(b[:, 2:], 16, NIBBLES, 15), 8), half(b, 0), None


def q4_1(b: U8) -> Split:
    """d f16 · m f16 · qs 16 as Q4_0. scale d, minimum -m, code q."""
    return planes(b[:, 4:], 16, NIBBLES, 15).view(np.int8), half(b, 0), -half(b, 2)


def _fifth_bits(b: U8, at: int) -> U8:
    """qh 4 (bit i belongs to element i) · qs 16 as Q4_0: q = nibble | bit << 4."""
    high = ((b[:, at : at + 4, None] >> BITS) & np.uint8(1)).reshape(len(b), 32)
    return planes(b[:, at + 4 :], 16, NIBBLES, 15) | high << np.uint8(4)


def q5_0(b: U8) -> Split:
    """d f16 · qh 4 · qs 16. scale d, code q - 16."""
    return signed(_fifth_bits(b, 2), 16), half(b, 0), None


def q5_1(b: U8) -> Split:
    """d f16 · m f16 · qh 4 · qs 16. scale d, minimum -m, code q."""
    return _fifth_bits(b, 4).view(np.int8), half(b, 0), -half(b, 2)


def q8_0(b: U8) -> Split:
    """d f16 · qs 32 int8. scale d, code q."""
    return b[:, 2:].view(np.int8), half(b, 0), None


# --- 256 elements, scales of groups (the K types) -------------------------------------------------------------------


def q2_k(b: U8) -> Split:
    """sc 16 · qs 64 · d f16 · dmin f16. Groups of 16: scale d * lo(sc), minimum dmin * hi(sc).

    32 bytes of qs hold 128 elements: bits 0-1 elements 0..31, bits 2-3 elements 32..63, ...
    """
    sc = b[:, :16]
    scale, minimum = half(b, 80) * (sc & np.uint8(15)), half(b, 82) * (sc >> np.uint8(4))
    return planes(b[:, 16:80], 32, PAIRS, 3).view(np.int8), scale, minimum


def q3_k(b: U8) -> Split:
    """hmask 32 · qs 64 as Q2_K · sc 12 · d f16. Groups of 16: scale d * (s - 32), code q - 4 * (hmask bit is 0).

    s: 6 bits. Low 4: lo(sc[0..7]) for groups 0..7, hi(sc[0..7]) for 8..15. High 2: pair g / 4 of sc[8 + g % 4].
    Bit k of hmask[i] belongs to element 32 k + i.
    """
    low = planes(b[:, 96:104], 8, NIBBLES, 15)
    s = signed(low | planes(b[:, 104:108], 4, PAIRS, 3) << np.uint8(4), 32)
    high = planes(b[:, :32], 32, BITS, 1)
    codes = signed(planes(b[:, 32:96], 32, PAIRS, 3) | high << np.uint8(2), 4)
    return codes, half(b, 108) * s, None


def _scales_and_minimums(b: U8) -> tuple[F32, F32]:
    """d f16 · dmin f16 · sc 12: eight 6-bit scales s and minimums m; scale d * s, minimum dmin * m.

    s[0..3], m[0..3]: the low 6 bits of sc[0..3], sc[4..7].
    s[4..7] = lo(sc[8..11]) | (sc[0..3] >> 6) << 4; m[4..7] = hi(sc[8..11]) | (sc[4..7] >> 6) << 4.
    """
    s, m, rest = b[:, 4:8], b[:, 8:12], b[:, 12:16]
    six, top = np.uint8(0x3F), np.uint8(0x30)
    scales = np.concatenate([s & six, (rest & np.uint8(15)) | (s >> np.uint8(2) & top)], axis=1)
    minimums = np.concatenate([m & six, (rest >> np.uint8(4)) | (m >> np.uint8(2) & top)], axis=1)
    return half(b, 0) * scales, half(b, 2) * minimums


def q4_k(b: U8) -> Split:
    """d · dmin · sc 12 · qs 128. Groups of 32; 32 bytes of qs hold 64 elements: lo the first 32, hi the others."""
    return planes(b[:, 16:], 32, NIBBLES, 15).view(np.int8), *_scales_and_minimums(b)


def q5_k(b: U8) -> Split:
    """d · dmin · sc 12 · qh 32 · qs 128 as Q4_K. q = nibble | bit << 4; bit k of qh[i] belongs to element 32 k + i."""
    high = planes(b[:, 16:48], 32, BITS, 1)
    codes = planes(b[:, 48:], 32, NIBBLES, 15) | high << np.uint8(4)
    return codes.view(np.int8), *_scales_and_minimums(b)


def q6_k(b: U8) -> Split:
    """ql 128 · qh 64 · sc 16 int8 · d f16. Groups of 16: scale d * sc, code q - 32, q = nibble | pair << 4.

    64 bytes of ql hold 128 elements: lo the first 64, hi the others. 32 bytes of qh hold 128 elements as Q2_K's qs.
    """
    high = planes(b[:, 128:192], 32, PAIRS, 3)
    codes = planes(b[:, :128], 64, NIBBLES, 15) | high << np.uint8(4)
    return signed(codes, 32), half(b, 208) * b[:, 192:208].view(np.int8), None


# --- codes through a table of 16 ------------------------------------------------------------------------------------


def iq4_nl(b: U8) -> Split:
    """d f16 · qs 16 as Q4_0. scale d, code IQ4_VALUES[q]."""
    return IQ4_VALUES[planes(b[:, 2:], 16, NIBBLES, 15)], half(b, 0), None


def iq4_xs(b: U8) -> Split:
    """d f16 · high u16 · low 4 · qs 128. Groups of 32, each with 16 bytes of qs as Q4_0: scale d * (s - 32).

    s: low 4 bits are consecutive nibbles of low, the next 2 are bits 2g, 2g+1 of high.
    """
    high = (u16(b[:, 2:4]) >> np.arange(0, 16, 2, dtype=np.uint16) & np.uint16(3)).astype(np.uint8)
    s = signed(nibbles(b[:, 4:8]) | high << np.uint8(4), 32)
    return IQ4_VALUES[planes(b[:, 8:], 16, NIBBLES, 15)], half(b, 0) * s, None


def mxfp4(b: U8) -> Split:
    """e 1 · qs 16 as Q4_0. scale 2^(e - 128) (half of E8M0, since codes are doubled), code E2M1_VALUES[q]."""
    e = b[:, :1].astype(np.uint32)
    bits = np.where(e < 2, np.uint32(0x00200000) << e, (e - np.uint32(1)) << np.uint32(23))
    return E2M1_VALUES[planes(b[:, 1:], 16, NIBBLES, 15)], bits.view(np.float32), None


def nvfp4(b: U8) -> Split:
    """s 4 · qs 32. Groups of 16, each with 8 bytes of qs: lo elements 0..7, hi 8..15. scale HALF_E4M3[s]."""
    return E2M1_VALUES[planes(b[:, 4:], 8, NIBBLES, 15)], HALF_E4M3[b[:, :4]], None


# --- ternary --------------------------------------------------------------------------------------------------------


def tq1_0(b: U8) -> Split:
    """qs 48 · qh 4 · d f16. scale d, code digit - 1. A byte holds 5 base-3 digits (qh: 4) as a fraction of 256:
    digit k = (byte * 3^k mod 256) * 3 >> 8. Runs of 32, 16 and 4 bytes; a run holds the first digits of its bytes,
    then the second ones, ...
    """
    digits = []
    for run, powers in ((b[:, :32], 5), (b[:, 32:48], 5), (b[:, 48:52], 4)):
        shifted = run[:, None, :] * np.array([1, 3, 9, 27, 81][:powers], np.uint8)[:, None]
        digits.append((shifted.astype(np.uint16) * np.uint16(3) >> np.uint16(8)).astype(np.uint8).reshape(len(b), -1))
    return signed(np.concatenate(digits, axis=1), 1), half(b, 52), None


def tq2_0(b: U8) -> Split:
    """qs 64 as Q2_K · d f16. scale d, code q - 1."""
    return signed(planes(b[:, :64], 32, PAIRS, 3), 1), half(b, 64), None


# --- points of a grid, with signs -----------------------------------------------------------------------------------


def _packed_signs(words: U32) -> U8:
    """Four 7-bit sign indexes of each u32, lowest first: sign bytes [blocks, 4 * words]."""
    indexes = words[..., None] >> np.arange(0, 28, 7, dtype=np.uint32) & np.uint32(127)
    signs: U8 = SIGN_BYTES[indexes]
    return signs.reshape(len(words), -1)


def iq2_xxs(b: U8) -> Split:
    """d f16 · 8 x (indexes 4 · u32). Groups of 32, scale d * (0.5 + (u >> 28)) * 0.25; 7 sign bits of u a point."""
    words = u32(b[:, 2:]).reshape(len(b), 8, 2)
    indexes = b[:, 2:].reshape(len(b), 8, 8)[:, :, :4].reshape(len(b), 32)
    u = words[:, :, 1]
    scale = half(b, 0) * (np.float32(0.5) + (u >> np.uint32(28)).astype(np.float32)) * np.float32(0.25)
    return _negative(_points("IQ2_XXS", indexes), _packed_signs(u)), scale, None


def iq2_xs(b: U8) -> Split:
    """d f16 · qs 32 x u16 (index 9 bits, sign index 7) · sc 8. Groups of 16, scale d * (0.5 + nibble) * 0.25."""
    qs = u16(b[:, 2:66])
    scale = half(b, 0) * (np.float32(0.5) + nibbles(b[:, 66:])) * np.float32(0.25)
    return _negative(_points("IQ2_XS", qs & np.uint16(511)), SIGN_BYTES[qs >> np.uint16(9)]), scale, None


def iq2_s(b: U8) -> Split:
    """d f16 · qs 32 · signs 32 · qh 8 (2 bits a point) · sc 8. As IQ2_XS, index = qs | pair << 8."""
    high = planes(b[:, 66:74], 1, PAIRS, 3).astype(np.uint16)
    indexes = b[:, 2:34] | high << np.uint16(8)
    scale = half(b, 0) * (np.float32(0.5) + nibbles(b[:, 74:])) * np.float32(0.25)
    return _negative(_points("IQ2_S", indexes), b[:, 34:66]), scale, None


def iq3_xxs(b: U8) -> Split:
    """d f16 · qs 64 · 8 x u32. Groups of 32, scale d * (0.5 + (u >> 28)) * 0.5; signs as IQ2_XXS; points of 4."""
    u = u32(b[:, 66:])
    scale = half(b, 0) * (np.float32(0.5) + (u >> np.uint32(28)).astype(np.float32)) * np.float32(0.5)
    return _negative(_points("IQ3_XXS", b[:, 2:66]), _packed_signs(u)), scale, None


def iq3_s(b: U8) -> Split:
    """d f16 · qs 64 · qh 8 (1 bit a point) · signs 32 · sc 4. Groups of 32, scale d * (1 + 2 * nibble); points of 4."""
    high = planes(b[:, 66:74], 1, BITS, 1).astype(np.uint16)
    indexes = b[:, 2:66] | high << np.uint16(8)
    scale = half(b, 0) * (np.uint8(1) + np.uint8(2) * nibbles(b[:, 106:]))
    return _negative(_points("IQ3_S", indexes), b[:, 74:106]), scale, None


def _eighths(indexes: U16, down: NDArray[np.bool_]) -> I8:
    """Points of the IQ1 grid in eighths, each moved by one: [blocks, indexes * 8]. down: which points move down."""
    points = grid("IQ1_S")[indexes] * np.int8(8) + np.where(down, np.int8(-1), np.int8(1))[..., None]
    return points.reshape(len(indexes), -1)


def iq1_s(b: U8) -> Split:
    """d f16 · qs 32 · qh 8 x u16. Groups of 32: scale d * (2 * s + 1) / 8, s = bits 12-14 of qh; bit 15: move down.

    index = qs | 3 bits of qh << 8 (lowest first).
    """
    qh = u16(b[:, 34:])
    high = (qh[..., None] >> np.arange(0, 12, 3, dtype=np.uint16) & np.uint16(7)).reshape(len(b), 32)
    scale = half(b, 0) * (np.uint16(2) * (qh >> np.uint16(12) & np.uint16(7)) + np.uint16(1)) * np.float32(0.125)
    return _eighths(b[:, 2:34] | high << np.uint16(8), np.repeat(qh >> np.uint16(15) == 1, 4, axis=1)), scale, None


def iq1_m(b: U8) -> Split:
    """qs 32 · qh 16 (a nibble a point) · sc 4 x u16. Groups of 16: scale d * (2 * s + 1) / 8.

    s: four times 3 bits of each sc, lowest first. d: an f16 made of the top nibbles of the four sc, lowest first.
    index = qs | (nibble & 7) << 8; bit 3 of the nibble: move down.
    """
    sc, high = u16(b[:, 48:]), nibbles(b[:, 32:48])
    d = np.bitwise_or.reduce(sc >> np.uint16(12) << np.array([0, 4, 8, 12], np.uint16), axis=1, keepdims=True)
    s = (sc[..., None] >> np.arange(0, 12, 3, dtype=np.uint16) & np.uint16(7)).reshape(len(b), 16)
    scale = d.view("<f2").astype(np.float32) * (np.uint16(2) * s + np.uint16(1)) * np.float32(0.125)
    return _eighths(b[:, :32] | (high & np.uint8(7)).astype(np.uint16) << np.uint16(8), high > 7), scale, None


SPLITS: dict[str, Callable[[U8], Split]] = {
    "Q1_0": q1_0, "Q2_0": q2_0, "Q4_0": q4_0, "Q4_1": q4_1, "Q5_0": q5_0, "Q5_1": q5_1, "Q8_0": q8_0,
    "Q2_K": q2_k, "Q3_K": q3_k, "Q4_K": q4_k, "Q5_K": q5_k, "Q6_K": q6_k,
    "IQ1_S": iq1_s, "IQ1_M": iq1_m, "IQ2_XXS": iq2_xxs, "IQ2_XS": iq2_xs, "IQ2_S": iq2_s, "IQ3_XXS": iq3_xxs,
    "IQ3_S": iq3_s, "IQ4_NL": iq4_nl, "IQ4_XS": iq4_xs, "MXFP4": mxfp4, "NVFP4": nvfp4, "TQ1_0": tq1_0, "TQ2_0": tq2_0,
}  # fmt: skip
