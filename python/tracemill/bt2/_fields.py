"""Fields of events and packets."""

# Numbers as programs expect them are not what `numbers` describes.
# mypy: disable-error-code="no-any-return,misc,assignment,override"

from __future__ import annotations

import collections.abc
import functools
import numbers
from typing import Any, Iterator, List, Optional

from ._values import Arithmetic, IntegralArithmetic, Uncopied, check_str, check_unsigned, number


def _leaf(field: Any) -> Any:
    """The field that a variant or an option stands for."""
    while isinstance(field, (_VariantFieldConst, _OptionFieldConst)):
        field = field.selected_option if isinstance(field, _VariantFieldConst) else field.field
    return field


class _FieldConst(Uncopied):
    """A field: a value of Python, and the class of the field."""

    __slots__ = ("_value", "_cls")

    def __init__(self, value: Any, cls: Any) -> None:
        self._value = value
        self._cls = cls

    @property
    def cls(self) -> Any:
        return self._cls

    @property
    def addr(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self._spec_eq(_leaf(other))

    __hash__ = None

    def _spec_eq(self, other: Any) -> bool:
        raise NotImplementedError

    def __repr__(self) -> str:
        return repr(self._value)


class _BitArrayFieldConst(_FieldConst):
    __slots__ = ()

    @property
    def value_as_integer(self) -> int:
        return int(self._value)

    @property
    def active_flag_labels(self) -> List[str]:
        """The flags that are set (of bt2 2.1)."""
        value = int(self._value)
        flags = self._cls.flags
        return [label for label, ranges in flags if any(value >> low & (1 << high - low + 1) - 1 for low, high in ranges)]

    def _spec_eq(self, other: Any) -> bool:
        return type(other) is type(self) and self._value == other._value

    def __str__(self) -> str:
        return str(self._value)

    def __len__(self) -> int:
        return int(self._cls.length)


@functools.total_ordering
class _NumericFieldConst(Arithmetic, _FieldConst):
    __slots__ = ()

    def _spec_eq(self, other: Any) -> bool:
        try:
            return bool(self._value == number(other))
        except TypeError:
            return False

    __eq__ = _FieldConst.__eq__

    def __hash__(self) -> int:
        return hash(self._value)

    def __str__(self) -> str:
        return repr(self._value)


class _IntegralFieldConst(IntegralArithmetic, _NumericFieldConst, numbers.Integral):
    __slots__ = ()
    __eq__ = _FieldConst.__eq__
    __hash__ = _NumericFieldConst.__hash__


class _BoolFieldConst(_IntegralFieldConst):
    __slots__ = ()
    _is_boolean = True

    def __bool__(self) -> bool:
        return bool(self._value)


class _IntegerFieldConst(_IntegralFieldConst):
    __slots__ = ()


class _UnsignedIntegerFieldConst(_IntegerFieldConst):
    __slots__ = ()


class _SignedIntegerFieldConst(_IntegerFieldConst):
    __slots__ = ()


class _RealFieldConst(_NumericFieldConst, numbers.Real):
    __slots__ = ()
    __eq__ = _FieldConst.__eq__
    __hash__ = _NumericFieldConst.__hash__


class _SinglePrecisionRealFieldConst(_RealFieldConst):
    __slots__ = ()


class _DoublePrecisionRealFieldConst(_RealFieldConst):
    __slots__ = ()


class _EnumerationFieldConst(_IntegerFieldConst):
    __slots__ = ()

    @property
    def labels(self) -> List[str]:
        return list(self._cls._labels(self._value))

    def __repr__(self) -> str:
        return f"{self._value} ({', '.join(self._cls._labels(self._value))})"

    __str__ = __repr__


class _UnsignedEnumerationFieldConst(_EnumerationFieldConst, _UnsignedIntegerFieldConst):
    __slots__ = ()


class _SignedEnumerationFieldConst(_EnumerationFieldConst, _SignedIntegerFieldConst):
    __slots__ = ()


@functools.total_ordering
class _StringFieldConst(_FieldConst):
    __slots__ = ()

    @staticmethod
    def _text(value: Any) -> str:
        if isinstance(value, _StringFieldConst):
            return str(value._value)
        if not isinstance(value, str):
            raise TypeError("expecting a 'str' object")
        return value

    def _spec_eq(self, other: Any) -> bool:
        try:
            return bool(self._value == self._text(other))
        except TypeError:
            return False

    __eq__ = _FieldConst.__eq__

    def __lt__(self, other: Any) -> bool:
        return bool(self._value < self._text(other))

    def __bool__(self) -> bool:
        return bool(self._value)

    def __hash__(self) -> int:
        return hash(self._value)

    def __str__(self) -> str:
        return self._value

    def __getitem__(self, index: Any) -> str:
        return str(self._value[index])

    def __len__(self) -> int:
        return len(self._value.encode("utf-8", "surrogateescape"))


class _ContainerFieldConst(_FieldConst):
    __slots__ = ()

    def __bool__(self) -> bool:
        return len(self) != 0

    def __len__(self) -> int:
        return len(self._cls)

    def __delitem__(self, index: Any) -> None:
        raise NotImplementedError

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError(f"'{type(self)}' object does not support item assignment")

    def __str__(self) -> str:
        return repr(self)


class _StructureFieldConst(_ContainerFieldConst, collections.abc.Mapping):  # type: ignore[type-arg]
    __slots__ = ()

    def __iter__(self) -> Iterator[str]:
        return iter(self._cls._index)

    def _spec_eq(self, other: Any) -> bool:
        if not isinstance(other, collections.abc.Mapping) or len(self) != len(other):
            return False
        return all(name in other and self[name] == other[name] for name in self)

    __eq__ = _FieldConst.__eq__

    def __repr__(self) -> str:
        return f"{{{', '.join(f'{name!r}: {field!r}' for name, field in self.items())}}}"

    def __contains__(self, key: object) -> bool:
        return check_str(key) in self._cls._index

    def __getitem__(self, key: str) -> Any:
        try:
            index, made, cls = self._cls._index[key]
        except (KeyError, TypeError):
            check_str(key)
            raise
        return made(self._value[index], cls)

    def items(self) -> Any:
        # Views of mappings look each name up again.
        return [(name, made(value, cls)) for value, (name, (_, made, cls)) in zip(self._value, self._cls._index.items())]

    def values(self) -> Any:
        return [made(value, cls) for value, (_, made, cls) in zip(self._value, self._cls._index.values())]

    def member_at_index(self, index: int) -> Any:
        check_unsigned(index)
        if index >= len(self):
            raise IndexError
        cls = self._cls._members[index][1]
        return cls._field(self._value[index], cls)


class _OptionFieldConst(_FieldConst):
    __slots__ = ()

    @property
    def field(self) -> Any:
        if self._value is None:
            return None
        cls = self._cls.field_class
        return cls._field(self._value, cls)

    @property
    def has_field(self) -> bool:
        return self._value is not None

    def _spec_eq(self, other: Any) -> bool:
        return bool(_leaf(self) == other)

    def __bool__(self) -> bool:
        return self.has_field

    def __str__(self) -> str:
        return str(self.field)

    def __repr__(self) -> str:
        return repr(self.field)


class _VariantFieldConst(_ContainerFieldConst):
    __slots__ = ()

    @property
    def selected_option_index(self) -> int:
        return int(self._value[0])

    @property
    def selected_option(self) -> Any:
        index, value = self._value
        cls = self._cls._options[index][1]
        return cls._field(value, cls)

    def _spec_eq(self, other: Any) -> bool:
        return bool(_leaf(self) == other)

    def __bool__(self) -> bool:
        raise NotImplementedError

    def __str__(self) -> str:
        return str(self.selected_option)

    def __repr__(self) -> str:
        return repr(self.selected_option)


class _ArrayFieldConst(_ContainerFieldConst, collections.abc.Sequence):  # type: ignore[type-arg]
    __slots__ = ()

    @property
    def length(self) -> int:
        return len(self._value)

    def __len__(self) -> int:
        return len(self._value)

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, numbers.Integral):
            raise TypeError(f"'{type(index).__name__}' is not an integral number object: invalid index")
        index = int(index)
        if not 0 <= index < len(self._value):
            raise IndexError(f"{self._NAME} field object index is out of range")
        cls = self._cls.element_field_class
        return cls._field(self._value[index], cls)

    _NAME = "Const array"

    def __iter__(self) -> Iterator[Any]:
        cls = self._cls.element_field_class
        made = cls._field
        return (made(value, cls) for value in self._value)

    def insert(self, index: int, value: Any) -> None:
        raise NotImplementedError

    def _spec_eq(self, other: Any) -> bool:
        if not isinstance(other, collections.abc.Sequence) or len(self) != len(other):
            return False
        return all(own == its for own, its in zip(self, other))

    __eq__ = _FieldConst.__eq__

    def __repr__(self) -> str:
        return f"[{', '.join(repr(element) for element in self)}]"


class _StaticArrayFieldConst(_ArrayFieldConst):
    __slots__ = ()
    _NAME = "Const static array"


class _DynamicArrayFieldConst(_ArrayFieldConst):
    __slots__ = ()
    _NAME = "Const dynamic array"


class _BlobFieldConst(_FieldConst):
    """Bytes (of bt2 2.1)."""

    __slots__ = ()

    @property
    def data(self) -> memoryview:
        return memoryview(self._value)

    def _spec_eq(self, other: Any) -> bool:
        return bool(self._value == (other._value if isinstance(other, _BlobFieldConst) else other))

    def __len__(self) -> int:
        return len(self._value)

    def __bytes__(self) -> bytes:
        return bytes(self._value)


class _StaticBlobFieldConst(_BlobFieldConst):
    __slots__ = ()


class _DynamicBlobFieldConst(_BlobFieldConst):
    __slots__ = ()


def field(value: Any, cls: Any) -> Optional[Any]:
    """A field of a class."""
    return cls._field(value, cls)
