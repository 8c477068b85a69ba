"""What 64 bytes of text are, as bits: which belong to words, which need a closer look, which start something.

One vector comparison answers for all 64, so that the tokeniser steps from word to word instead of byte to byte.
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

BLOCK = 64  # bytes looked at together; that many must be readable behind the last byte of text

_BYTE, _BITS = ir.IntType(8), ir.IntType(64)
_VECTOR = ir.VectorType(_BYTE, BLOCK)


def _constant(byte: int) -> ir.Constant:
    return ir.Constant(_VECTOR, [byte] * BLOCK)


def _between(builder: Any, bytes_: Any, first: str, last: str) -> Any:
    moved = builder.sub(bytes_, _constant(ord(first)))
    return builder.icmp_unsigned("<=", moved, _constant(ord(last) - ord(first)))


def _plain_in(builder: Any, bytes_: Any) -> Any:
    lowered = builder.or_(bytes_, _constant(0x20))
    return builder.or_(_between(builder, lowered, "a", "z"), _between(builder, bytes_, "0", "9"))


def _one_of(builder: Any, bytes_: Any, wanted: str) -> Any:
    found = builder.icmp_unsigned("==", bytes_, _constant(ord(wanted[0])))
    for one in wanted[1:]:
        found = builder.or_(found, builder.icmp_unsigned("==", bytes_, _constant(ord(one))))
    return found


def _odd_in(builder: Any, bytes_: Any) -> Any:
    return builder.or_(builder.icmp_unsigned(">=", bytes_, _constant(0x80)), _one_of(builder, bytes_, "'"))


def _special_in(builder: Any, bytes_: Any) -> Any:
    return _one_of(builder, bytes_, _SPECIAL)


def _leading_in(builder: Any, bytes_: Any) -> Any:
    control = builder.icmp_unsigned("<", bytes_, _constant(0x20))
    blank = _one_of(builder, bytes_, "\t\n")
    return builder.or_(
        builder.and_(control, builder.not_(blank)),
        builder.or_(_one_of(builder, bytes_, "\x7f\xc2\xe2"), builder.icmp_unsigned(">=", bytes_, _constant(0xEF))),
    )


def _leads(byte: int) -> bool:
    return (byte < 0x20 and byte not in b"\t\n") or byte in b"\x7f\xc2\xe2" or byte >= 0xEF


def _bits_of(build: Callable[[Any, Any], Any], oracle: Callable[[int], bool]) -> Callable[..., Any]:
    """A function of (data, position): bit i tells whether the byte i behind the position is of this kind."""
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return lambda data, at: _bits([oracle(byte) for byte in data[int(at) : int(at) + BLOCK].tolist()])

    @intrinsic
    def bits(typing_context: Any, data: Any, at: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            loaded = builder.load(_address(context, builder, signature, arguments, _VECTOR), align=1)
            return builder.bitcast(build(builder, loaded), _BITS)

        return types.uint64(data, at), generate

    chosen: Callable[..., Any] = bits
    return chosen


def _bits(flags: list[bool]) -> np.uint64:
    return np.uint64(sum(flag << place for place, flag in enumerate(flags)))


def _address(context: Any, builder: Any, signature: Any, arguments: Any, kind: ir.Type) -> Any:
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return builder.bitcast(builder.gep(array.data, [arguments[1]]), kind.as_pointer())


_SPECIAL = "#@&\x1f"
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")

plain_bits = _bits_of(_plain_in, lambda byte: byte in _PLAIN)  # ASCII letters and digits
odd_bits = _bits_of(_odd_in, lambda byte: byte >= 0x80 or byte == ord("'"))  # may belong to a word: decode and see
special_bits = _bits_of(_special_in, lambda byte: chr(byte) in _SPECIAL)  # starts a tag, a name, an entity or a field
leading_bits = _bits_of(_leading_in, _leads)  # may begin a control or what is no character: look at what follows


def padded(data: NDArray[np.uint8], buffer: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The bytes with a block of zeros behind them, in `buffer` if they fit there."""
    size = len(data) + BLOCK
    if len(buffer) < size:
        buffer = np.empty(size, np.uint8)
    buffer[: len(data)] = data
    buffer[len(data) : size] = 0
    return buffer


if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]

    def eight_bytes(data: NDArray[np.uint8], at: np.uint64) -> np.uint64:
        return np.uint64(int.from_bytes(data[int(at) : int(at) + 8].tobytes(), "little"))

    def lowest_bit(bits: np.uint64) -> np.uint64:
        return np.uint64((int(bits) & -int(bits)).bit_length() - 1) if bits else np.uint64(BLOCK)

    def prefetch(array: NDArray[np.uint64], at: np.uint64) -> None:
        pass

else:

    @intrinsic
    def eight_bytes(typing_context, data, at):  # type: ignore[no-untyped-def]
        """The eight bytes at a position as one number, the first byte lowest."""

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            return builder.load(_address(context, builder, signature, arguments, _BITS), align=1)

        return types.uint64(data, at), generate

    @intrinsic
    def lowest_bit(typing_context, bits):  # type: ignore[no-untyped-def]
        """The place of the lowest bit that is set; 64 when none is."""

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

        return types.uint64(types.uint64), generate

    @intrinsic
    def prefetch(typing_context, array, at):  # type: ignore[no-untyped-def]
        """Ask for the memory at a place of an array ahead of its use."""

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            place = _address(context, builder, signature, arguments, _BYTE)
            flag = ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [place.type, flag, flag, flag])
            call = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
            builder.call(call, [place, *(ir.Constant(flag, value) for value in (0, 3, 1))])  # read, keep, data
            return context.get_dummy_value()

        return types.void(array, at), generate
