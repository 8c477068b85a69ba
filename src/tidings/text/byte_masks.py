"""Classify 64 bytes of text with one vector comparison; the result is a mask with one bit per byte.

The tokenizer then steps from word to word instead of from byte to byte.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

BLOCK_BYTES = 64  # bytes per mask; as many bytes must be readable after the last byte of text

_BYTE, _BITS = ir.IntType(8), ir.IntType(64)
_VECTOR = ir.VectorType(_BYTE, BLOCK_BYTES)


def _constant(byte: int) -> ir.Constant:
    return ir.Constant(_VECTOR, [byte] * BLOCK_BYTES)


def _between(builder: Any, bytes_: Any, first: str, last: str) -> Any:
    moved = builder.sub(bytes_, _constant(ord(first)))
    return builder.icmp_unsigned("<=", moved, _constant(ord(last) - ord(first)))


def _is_plain(builder: Any, bytes_: Any) -> Any:
    lowered = builder.or_(bytes_, _constant(0x20))
    return builder.or_(_between(builder, lowered, "a", "z"), _between(builder, bytes_, "0", "9"))


def _one_of(builder: Any, bytes_: Any, characters: str) -> Any:
    result = builder.icmp_unsigned("==", bytes_, _constant(ord(characters[0])))
    for character in characters[1:]:
        result = builder.or_(result, builder.icmp_unsigned("==", bytes_, _constant(ord(character))))
    return result


def _is_odd(builder: Any, bytes_: Any) -> Any:
    return builder.or_(builder.icmp_unsigned(">=", bytes_, _constant(0x80)), _one_of(builder, bytes_, "'"))


def _is_special(builder: Any, bytes_: Any) -> Any:
    return _one_of(builder, bytes_, _SPECIAL)


def _is_suspect(builder: Any, bytes_: Any) -> Any:
    control = builder.icmp_unsigned("<", bytes_, _constant(0x20))
    blank = _one_of(builder, bytes_, "\t\n")
    return builder.or_(
        builder.and_(control, builder.not_(blank)),
        builder.or_(_one_of(builder, bytes_, "\x7f\xc2\xe1\xe2"), builder.icmp_unsigned(">=", bytes_, _constant(0xEF))),
    )


def _is_suspect_byte(byte: int) -> bool:
    return (byte < 0x20 and byte not in b"\t\n") or byte in b"\x7f\xc2\xe1\xe2" or byte >= 0xEF


def _mask_function(build: Callable[[Any, Any], Any], oracle: Callable[[int], bool]) -> Callable[..., Any]:
    """Return a function of (data, offset): bit i is set if the byte at offset + i is of this kind."""
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return lambda data, at: _to_mask([oracle(byte) for byte in data[int(at) : int(at) + BLOCK_BYTES].tolist()])

    @intrinsic
    def bits(typing_context: Any, data: Any, at: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            loaded = builder.load(_address(context, builder, signature, arguments, _VECTOR), align=1)
            return builder.bitcast(build(builder, loaded), _BITS)

        return types.uint64(data, at), generate

    typed: Callable[..., Any] = bits
    return typed


def _to_mask(flags: list[bool]) -> np.uint64:
    return np.uint64(sum(flag << bit for bit, flag in enumerate(flags)))


def _address(context: Any, builder: Any, signature: Any, arguments: Any, kind: ir.Type) -> Any:
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return builder.bitcast(builder.gep(array.data, [arguments[1]]), kind.as_pointer())


_SPECIAL = "#@&\x1f"
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")

# ASCII letters and digits
plain_bits = _mask_function(_is_plain, lambda byte: byte in _PLAIN)
# bytes that may belong to words and must be decoded
odd_bits = _mask_function(_is_odd, lambda byte: byte >= 0x80 or byte == ord("'"))
# starts of tags, names, entities and fields
special_bits = _mask_function(_is_special, lambda byte: chr(byte) in _SPECIAL)
# possible starts of controls and noncharacters; the following bytes decide
suspect_bits = _mask_function(_is_suspect, _is_suspect_byte)


def pad(data: NDArray[np.uint8], buffer: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the bytes followed by a block of zeros, in `buffer` if they fit."""
    size = len(data) + BLOCK_BYTES
    if len(buffer) < size:
        buffer = np.empty(size, np.uint8)
    buffer[: len(data)] = data
    buffer[len(data) : size] = 0
    return buffer


if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]

    def eight_bytes(data: NDArray[np.uint8], at: np.uint64) -> np.uint64:
        return np.uint64(int.from_bytes(data[int(at) : int(at) + 8].tobytes(), "little"))

    def lowest_bit(bits: np.uint64) -> np.uint64:
        return np.uint64((int(bits) & -int(bits)).bit_length() - 1) if bits else np.uint64(BLOCK_BYTES)

    def prefetch(array: NDArray[np.uint64], at: np.uint64) -> None:
        pass

else:

    @intrinsic
    def eight_bytes(typing_context, data, at):  # type: ignore[no-untyped-def]
        """Return the eight bytes at an offset as a little-endian integer."""

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            return builder.load(_address(context, builder, signature, arguments, _BITS), align=1)

        return types.uint64(data, at), generate

    @intrinsic
    def lowest_bit(typing_context, bits):  # type: ignore[no-untyped-def]
        """Return the index of the lowest set bit; 64 if no bit is set."""

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

        return types.uint64(types.uint64), generate

    @intrinsic
    def prefetch(typing_context, array, at):  # type: ignore[no-untyped-def]
        """Prefetch the memory at an offset of an array."""

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            address = _address(context, builder, signature, arguments, _BYTE)
            flag = ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [address.type, flag, flag, flag])
            call = builder.module.declare_intrinsic("llvm.prefetch", [address.type], kind)
            builder.call(call, [address, *(ir.Constant(flag, value) for value in (0, 3, 1))])  # read, keep, data
            return context.get_dummy_value()

        return types.void(array, at), generate
