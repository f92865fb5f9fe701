"""Values: environments, user attributes, parameters and results of queries."""

# Numbers as programs expect them are not what `numbers` describes.
# mypy: disable-error-code="no-any-return,misc,assignment,override"

from __future__ import annotations

import abc
import collections.abc
import functools
import math
import numbers
from typing import Any, Dict, Iterator, List, Optional


#: The least and the greatest integers of 64 bits.
SIGNED = (-(2**63), 2**63 - 1)
UNSIGNED = (0, 2**64 - 1)


def check_int(value: Any, low: int, high: int) -> None:
    if not isinstance(value, int):
        raise TypeError(f"'{type(value).__name__}' is not an 'int' object")
    if not low <= value <= high:
        sign = "a signed" if low < 0 else "an unsigned"
        raise ValueError(f"expecting {sign} 64-bit integral value (got {value})")


def check_unsigned(value: Any) -> None:
    check_int(value, *UNSIGNED)


def check_str(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"'{type(value).__name__}' is not a 'str' object")
    return value


def create_value(value: Any) -> Any:
    """The value object of a value of Python."""
    if value is None or isinstance(value, _ValueConst):
        return value
    if isinstance(value, bool):
        return BoolValue(value)
    if isinstance(value, numbers.Integral):
        return SignedIntegerValue(value)
    if isinstance(value, numbers.Real):
        return RealValue(value)
    if isinstance(value, str):
        return StringValue(value)
    if isinstance(value, collections.abc.Sequence):
        return ArrayValue(value)
    if isinstance(value, collections.abc.Mapping):
        return MapValue(value)
    raise TypeError(f"cannot create value object from '{type(value).__name__}' object")


def const(value: Any) -> Any:
    """The value object of a value of Python, one that cannot be changed."""
    made = create_value(value)
    if isinstance(made, ArrayValue):
        return _ArrayValueConst([const(one) for one in made._value])
    if isinstance(made, MapValue):
        return _MapValueConst({name: const(one) for name, one in made._value.items()})
    constant = _CONSTANTS.get(type(made))
    return made if constant is None else constant(made._value)


class Uncopied:
    """An object that `copy` refuses, as all objects of bt2."""

    __slots__ = ()

    def __copy__(self) -> Any:
        raise NotImplementedError

    def __deepcopy__(self, memo: Any) -> Any:
        raise NotImplementedError


class _ValueConst(Uncopied, metaclass=abc.ABCMeta):
    __slots__ = ("_value",)
    _value: Any
    #: What a value that is made of none has.
    _EMPTY: Any = None

    def __init__(self, value: Any = None) -> None:
        self._value = self._of(self._EMPTY if value is None else value)

    @classmethod
    def _of(cls, value: Any) -> Any:
        """The value of Python in a value object of this class."""
        raise NotImplementedError

    def __ne__(self, other: object) -> bool:
        return not self == other

    @property
    def addr(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return repr(self._value)


class _Value(_ValueConst):
    """A value that can be changed."""

    __slots__ = ()


class _SimpleValue(_Value):
    """A value without others in it that can be changed: `value` is only written, as in bt2."""

    __slots__ = ()

    def _set(self, value: Any) -> None:
        self._value = self._of(value)

    value = property(fset=_set)


def number(other: Any) -> Any:
    """A number of Python that stands for an operand."""
    if isinstance(other, bool) or getattr(other, "_is_boolean", False):
        return bool(other)
    if isinstance(other, numbers.Integral):
        return int(other)
    if isinstance(other, numbers.Real):
        return float(other)
    if isinstance(other, numbers.Complex):
        return complex(other)
    raise TypeError(f"'{type(other).__name__}' object is not a number object")


class Arithmetic:
    """What numbers can do, by a value of Python: fields and values share it."""

    __slots__ = ()
    _value: Any

    def __int__(self) -> int:
        return int(self._value)

    def __float__(self) -> float:
        return float(self._value)

    def __lt__(self, other: Any) -> bool:
        if not isinstance(other, numbers.Number):
            raise TypeError(f"unorderable types: {type(self).__name__}() < {type(other).__name__}()")
        return bool(self._value < number(other))

    def __mod__(self, other: Any) -> Any:
        return self._value % number(other)

    def __rmod__(self, other: Any) -> Any:
        return number(other) % self._value

    def __floordiv__(self, other: Any) -> Any:
        return self._value // number(other)

    def __rfloordiv__(self, other: Any) -> Any:
        return number(other) // self._value

    def __round__(self, ndigits: Optional[int] = None) -> Any:
        return round(self._value) if ndigits is None else round(self._value, ndigits)

    def __ceil__(self) -> int:
        return math.ceil(self._value)

    def __floor__(self) -> int:
        return math.floor(self._value)

    def __trunc__(self) -> int:
        return int(self._value)

    def __abs__(self) -> Any:
        return abs(self._value)

    def __add__(self, other: Any) -> Any:
        return self._value + number(other)

    def __radd__(self, other: Any) -> Any:
        return number(other) + self._value

    def __neg__(self) -> Any:
        return -self._value

    def __pos__(self) -> Any:
        return +self._value

    def __mul__(self, other: Any) -> Any:
        return self._value * number(other)

    def __rmul__(self, other: Any) -> Any:
        return number(other) * self._value

    def __truediv__(self, other: Any) -> Any:
        return self._value / number(other)

    def __rtruediv__(self, other: Any) -> Any:
        return number(other) / self._value

    def __pow__(self, exponent: Any) -> Any:
        return self._value ** number(exponent)

    def __rpow__(self, base: Any) -> Any:
        return number(base) ** self._value


class IntegralArithmetic(Arithmetic):
    """What integers can do beside that."""

    __slots__ = ()

    def __index__(self) -> int:
        return int(self._value)

    def __lshift__(self, other: Any) -> int:
        return self._value << number(other)

    def __rlshift__(self, other: Any) -> int:
        return number(other) << self._value

    def __rshift__(self, other: Any) -> int:
        return self._value >> number(other)

    def __rrshift__(self, other: Any) -> int:
        return number(other) >> self._value

    def __and__(self, other: Any) -> int:
        return self._value & number(other)

    def __rand__(self, other: Any) -> int:
        return number(other) & self._value

    def __xor__(self, other: Any) -> int:
        return self._value ^ number(other)

    def __rxor__(self, other: Any) -> int:
        return number(other) ^ self._value

    def __or__(self, other: Any) -> int:
        return self._value | number(other)

    def __ror__(self, other: Any) -> int:
        return number(other) | self._value

    def __invert__(self) -> int:
        return ~self._value


@functools.total_ordering
class _NumericValueConst(Arithmetic, _ValueConst):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        try:
            return bool(self._value == number(other))
        except TypeError:
            return False

    __hash__ = None


class _IntegralValueConst(IntegralArithmetic, _NumericValueConst, numbers.Integral):
    __slots__ = ()
    __eq__ = _NumericValueConst.__eq__
    __hash__ = None


class _BoolValueConst(_IntegralValueConst):
    __slots__ = ()
    _is_boolean = True
    _EMPTY = False

    @classmethod
    def _of(cls, value: Any) -> bool:
        if not isinstance(value, (bool, _BoolValueConst)):
            raise TypeError(f"'{type(value)}' object is not a 'bool', 'BoolValue', or '_BoolValueConst' object")
        return bool(value)

    def __bool__(self) -> bool:
        return bool(self._value)


class BoolValue(_BoolValueConst, _SimpleValue):
    __slots__ = ()


class _IntegerValueConst(_IntegralValueConst):
    __slots__ = ()
    _EMPTY = 0
    _range = SIGNED

    @classmethod
    def _of(cls, value: Any) -> int:
        if not isinstance(value, numbers.Integral):
            raise TypeError("expecting an integral number object")
        check_int(int(value), *cls._range)
        return int(value)


class _UnsignedIntegerValueConst(_IntegerValueConst):
    __slots__ = ()
    _range = UNSIGNED


class _SignedIntegerValueConst(_IntegerValueConst):
    __slots__ = ()


class _IntegerValue(_IntegerValueConst, _SimpleValue):
    __slots__ = ()


class UnsignedIntegerValue(_UnsignedIntegerValueConst, _IntegerValue):
    __slots__ = ()


class SignedIntegerValue(_SignedIntegerValueConst, _IntegerValue):
    __slots__ = ()


class _RealValueConst(_NumericValueConst, numbers.Real):
    __slots__ = ()
    __eq__ = _NumericValueConst.__eq__
    __hash__ = None

    _EMPTY = 0.0

    @classmethod
    def _of(cls, value: Any) -> float:
        if not isinstance(value, numbers.Real):
            raise TypeError("expecting a real number object")
        return float(value)


class RealValue(_RealValueConst, _SimpleValue):
    __slots__ = ()


@functools.total_ordering
class _StringValueConst(collections.abc.Sequence, _ValueConst):  # type: ignore[type-arg]
    __slots__ = ()

    _EMPTY = ""

    @classmethod
    def _of(cls, value: Any) -> str:
        return cls._text(value)

    @staticmethod
    def _text(value: Any) -> str:
        if isinstance(value, _StringValueConst):
            return str(value._value)
        if not isinstance(value, str):
            raise TypeError("expecting a 'str' object")
        return value

    def __eq__(self, other: object) -> bool:
        try:
            return bool(self._value == self._text(other))
        except TypeError:
            return False

    def __lt__(self, other: Any) -> bool:
        return bool(self._value < self._text(other))

    def __bool__(self) -> bool:
        return bool(self._value)

    def __str__(self) -> str:
        return str(self._value)

    def __getitem__(self, index: Any) -> Any:
        return self._value[index]

    def __len__(self) -> int:
        return len(self._value)

    def __contains__(self, item: Any) -> bool:
        return self._text(item) in self._value

    __hash__ = None


class StringValue(_StringValueConst, _SimpleValue):
    __slots__ = ()

    def __iadd__(self, value: Any) -> StringValue:
        self._value += self._text(value)
        return self


class _ContainerConst(_ValueConst):
    __slots__ = ()

    def __bool__(self) -> bool:
        return len(self._value) != 0


class _ArrayValueConst(_ContainerConst, collections.abc.Sequence):  # type: ignore[type-arg]
    __slots__ = ()
    _value: List[Any]

    _EMPTY = ()

    @classmethod
    def _of(cls, value: Any) -> List[Any]:
        return [create_value(one) for one in value]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, collections.abc.Sequence) or len(self) != len(other):
            return False
        return all(own == its for own, its in zip(self._value, other))

    __hash__ = None

    def __len__(self) -> int:
        return len(self._value)

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, numbers.Integral):
            raise TypeError(f"'{type(index).__name__}' is not an integral number object: invalid index")
        index = int(index)
        if not 0 <= index < len(self._value):
            raise IndexError("array value object index is out of range")
        return self._value[index]


class ArrayValue(_ArrayValueConst, collections.abc.MutableSequence, _Value):  # type: ignore[type-arg]
    __slots__ = ()

    def __setitem__(self, index: Any, value: Any) -> None:
        self[index]
        self._value[int(index)] = create_value(value)

    def __delitem__(self, index: Any) -> None:
        raise NotImplementedError

    def insert(self, index: int, value: Any) -> None:
        raise NotImplementedError

    def append(self, value: Any) -> None:
        self._value.append(create_value(value))

    def __iadd__(self, values: Any) -> ArrayValue:
        for value in values:
            self.append(value)
        return self


class _MapValueConst(_ContainerConst, collections.abc.Mapping):  # type: ignore[type-arg]
    __slots__ = ()
    _value: Dict[str, Any]

    _EMPTY: Dict[str, Any] = {}

    @classmethod
    def _of(cls, value: Any) -> Dict[str, Any]:
        return {check_str(name): create_value(one) for name, one in value.items()}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, collections.abc.Mapping) or len(self) != len(other):
            return False
        return all(name in other and one == other[name] for name, one in self._value.items())

    __hash__ = None

    def __len__(self) -> int:
        return len(self._value)

    def __iter__(self) -> Iterator[str]:
        return iter(self._value)

    def __contains__(self, key: object) -> bool:
        return check_str(key) in self._value

    def __getitem__(self, key: Any) -> Any:
        return self._value[check_str(key)]


class MapValue(_MapValueConst, collections.abc.MutableMapping, _Value):  # type: ignore[type-arg]
    __slots__ = ()

    def __setitem__(self, key: Any, value: Any) -> None:
        self._value[check_str(key)] = create_value(value)

    def __delitem__(self, key: Any) -> None:
        raise NotImplementedError


#: What values share with fields.
SHARED = (Uncopied, Arithmetic, IntegralArithmetic)
_CONSTANTS: Dict[Any, Any] = {
    BoolValue: _BoolValueConst,
    SignedIntegerValue: _SignedIntegerValueConst,
    UnsignedIntegerValue: _UnsignedIntegerValueConst,
    RealValue: _RealValueConst,
    StringValue: _StringValueConst,
}
_CONSTANTS.update({made: made for made in list(_CONSTANTS.values())})
