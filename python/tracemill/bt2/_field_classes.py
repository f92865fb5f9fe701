"""Classes of fields, and what they are made of."""

from __future__ import annotations

import collections.abc
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, Type

from . import _fields as fields
from ._values import SIGNED, UNSIGNED, Uncopied, _MapValueConst, check_int, check_str, check_unsigned


class IntegerDisplayBase:
    BINARY = 2
    OCTAL = 8
    DECIMAL = 10
    HEXADECIMAL = 16


class FieldPathScope:
    PACKET_CONTEXT = 0
    EVENT_COMMON_CONTEXT = 1
    EVENT_SPECIFIC_CONTEXT = 2
    EVENT_PAYLOAD = 3


# Ranges


class _IntegerRangeConst:
    _limits = SIGNED

    def __init__(self, lower: int, upper: Optional[int] = None) -> None:
        upper = lower if upper is None else upper
        check_int(lower, *self._limits)
        check_int(upper, *self._limits)
        if lower > upper:
            raise ValueError(f"range's lower bound ({lower}) is greater than its upper bound ({upper})")
        self._lower, self._upper = lower, upper

    @property
    def lower(self) -> int:
        return self._lower

    @property
    def upper(self) -> int:
        return self._upper

    def contains(self, value: int) -> bool:
        check_int(value, *self._limits)
        return self._lower <= value <= self._upper

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _IntegerRangeConst) and (self.lower, self.upper) == (other.lower, other.upper)

    __hash__ = None  # type: ignore[assignment]


class _SignedIntegerRangeConst(_IntegerRangeConst):
    pass


class _UnsignedIntegerRangeConst(_IntegerRangeConst):
    _limits = UNSIGNED


class SignedIntegerRange(_SignedIntegerRangeConst):
    pass


class UnsignedIntegerRange(_UnsignedIntegerRangeConst):
    pass


class _IntegerRangeSetConst(Uncopied, collections.abc.Set):  # type: ignore[type-arg]
    _range: Type[_IntegerRangeConst] = _SignedIntegerRangeConst

    def __init__(self, ranges: Optional[Iterable[Any]] = None) -> None:
        self._ranges: List[_IntegerRangeConst] = []
        for one in () if ranges is None else ranges:
            self._add(one)

    def _add(self, one: Any) -> None:
        if type(one) is not self._range:
            one = self._range(one) if isinstance(one, int) else self._range(one[0], one[1])
        self._ranges.append(one)

    @property
    def addr(self) -> int:
        return id(self)

    def __len__(self) -> int:
        return len(self._ranges)

    def __contains__(self, other: object) -> bool:
        return any(one == other for one in self._ranges)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._ranges)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _IntegerRangeSetConst) or len(self) != len(other):
            return False
        return all(one in other for one in self)

    __hash__ = None  # type: ignore[assignment]

    def contains_value(self, value: int) -> bool:
        return any(one.contains(value) for one in self._ranges)

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> Any:
        raise TypeError(f"`{cls.__name__}` objects cannot be made")


class _IntegerRangeSet(_IntegerRangeSetConst, collections.abc.MutableSet):  # type: ignore[type-arg]
    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> Any:
        return cls(it)

    def add(self, value: Any) -> None:
        self._add(value)

    def discard(self, value: Any) -> None:
        raise NotImplementedError


class _SignedIntegerRangeSetConst(_IntegerRangeSetConst):
    pass


class _UnsignedIntegerRangeSetConst(_IntegerRangeSetConst):
    _range = _UnsignedIntegerRangeConst


class SignedIntegerRangeSet(_SignedIntegerRangeSetConst, _IntegerRangeSet):
    _range = SignedIntegerRange


class UnsignedIntegerRangeSet(_UnsignedIntegerRangeSetConst, _IntegerRangeSet):
    _range = UnsignedIntegerRange


def _range_set(ranges: Sequence[Tuple[int, int]], is_signed: bool) -> _IntegerRangeSetConst:
    if is_signed:
        limits = _SignedIntegerRangeConst._limits
        made: Callable[[Any], _IntegerRangeSetConst] = _SignedIntegerRangeSetConst
    else:
        limits = _UnsignedIntegerRangeConst._limits
        made = _UnsignedIntegerRangeSetConst
    low, high = limits
    return made([(max(lower, low), min(upper, high)) for lower, upper in ranges if upper >= low and lower <= high])


# Paths


class _FieldPathItem:
    pass


class _IndexFieldPathItem(_FieldPathItem):
    def __init__(self, index: int) -> None:
        self._index = index

    @property
    def index(self) -> int:
        return self._index


class _CurrentArrayElementFieldPathItem(_FieldPathItem):
    pass


class _CurrentOptionContentFieldPathItem(_FieldPathItem):
    pass


class _FieldPathConst(Uncopied, collections.abc.Iterable):  # type: ignore[type-arg]
    def __init__(self, scope: int, items: Sequence[int]) -> None:
        self._scope, self._items = scope, items

    @property
    def addr(self) -> int:
        return id(self)

    @property
    def root_scope(self) -> int:
        return self._scope

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[_FieldPathItem]:
        for item in self._items:
            if item >= 0:
                yield _IndexFieldPathItem(item)
            else:
                yield _CurrentArrayElementFieldPathItem() if item == -1 else _CurrentOptionContentFieldPathItem()


# Scopes by the numbers that the trace has; the others do not exist for bt2.
_SCOPES = {1: 0, 3: 1, 4: 2, 5: 3}


def _path(path: Optional[Tuple[int, Sequence[int]]]) -> Optional[_FieldPathConst]:
    if path is None or path[0] not in _SCOPES:
        return None
    return _FieldPathConst(_SCOPES[path[0]], path[1])


# Field classes


class _FieldClassConst(Uncopied):
    _field: Any = None

    @property
    def user_attributes(self) -> _MapValueConst:
        return _MapValueConst()

    @property
    def addr(self) -> int:
        return id(self)


class _BoolFieldClassConst(_FieldClassConst):
    _field = fields._BoolFieldConst


class _BitArrayFieldClassConst(_FieldClassConst):
    _field = fields._BitArrayFieldConst

    def __init__(self, length: int, flags: List[Tuple[str, List[Tuple[int, int]]]]) -> None:
        self._length, self.flags = length, flags

    @property
    def length(self) -> int:
        return self._length


class _IntegerFieldClassConst(_FieldClassConst):
    def __init__(self, bits: int, base: int) -> None:
        self._bits, self._base = bits, base

    @property
    def field_value_range(self) -> int:
        return self._bits

    @property
    def preferred_display_base(self) -> int:
        return self._base


class _UnsignedIntegerFieldClassConst(_IntegerFieldClassConst):
    _field = fields._UnsignedIntegerFieldConst


class _SignedIntegerFieldClassConst(_IntegerFieldClassConst):
    _field = fields._SignedIntegerFieldConst


class _RealFieldClassConst(_FieldClassConst):
    pass


class _SinglePrecisionRealFieldClassConst(_RealFieldClassConst):
    _field = fields._SinglePrecisionRealFieldConst


class _DoublePrecisionRealFieldClassConst(_RealFieldClassConst):
    _field = fields._DoublePrecisionRealFieldConst


class _EnumerationFieldClassMapping:
    def __init__(self, label: str, ranges: _IntegerRangeSetConst) -> None:
        self._label, self._ranges = label, ranges

    @property
    def label(self) -> str:
        return self._label

    @property
    def ranges(self) -> _IntegerRangeSetConst:
        return self._ranges


class _UnsignedEnumerationFieldClassMappingConst(_EnumerationFieldClassMapping):
    pass


class _SignedEnumerationFieldClassMappingConst(_EnumerationFieldClassMapping):
    pass


class _EnumerationFieldClassConst(_IntegerFieldClassConst, collections.abc.Mapping):  # type: ignore[type-arg]
    _is_signed = False

    def __init__(self, bits: int, base: int, mappings: List[Tuple[str, List[Tuple[int, int]]]]) -> None:
        super().__init__(bits, base)
        # Mappings with one label are one mapping.
        ranges: Dict[str, List[Tuple[int, int]]] = {}
        for label, own in mappings:
            ranges.setdefault(label, []).extend(own)
        self._by_label = ranges
        self._known: Dict[int, Tuple[str, ...]] = {}

    def _labels(self, value: int) -> Tuple[str, ...]:
        known = self._known.get(value)
        if known is None:
            matches = self._by_label.items()
            known = tuple(label for label, own in matches if any(low <= value <= high for low, high in own))
            if len(self._known) < 4096:
                self._known[value] = known
        return known

    def __len__(self) -> int:
        return len(self._by_label)

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_label)

    def __getitem__(self, label: str) -> Any:
        check_str(label)
        made = _SignedEnumerationFieldClassMappingConst if self._is_signed else _UnsignedEnumerationFieldClassMappingConst
        return made(label, _range_set(self._by_label[label], self._is_signed))

    def mappings_for_value(self, value: int) -> List[Any]:
        limits = _SignedIntegerRangeConst._limits if self._is_signed else _UnsignedIntegerRangeConst._limits
        check_int(value, *limits)
        return [self[label] for label in self._labels(value)]


class _UnsignedEnumerationFieldClassConst(_EnumerationFieldClassConst, _UnsignedIntegerFieldClassConst):
    _field = fields._UnsignedEnumerationFieldConst


class _SignedEnumerationFieldClassConst(_EnumerationFieldClassConst, _SignedIntegerFieldClassConst):
    _field = fields._SignedEnumerationFieldConst
    _is_signed = True


class _StringFieldClassConst(_FieldClassConst):
    _field = fields._StringFieldConst


class _StructureFieldClassMemberConst:
    def __init__(self, name: str, cls: Any) -> None:
        self._name, self._cls = name, cls

    @property
    def name(self) -> str:
        return self._name

    @property
    def field_class(self) -> Any:
        return self._cls

    @property
    def user_attributes(self) -> _MapValueConst:
        return _MapValueConst()


class _StructureFieldClassConst(_FieldClassConst, collections.abc.Mapping):  # type: ignore[type-arg]
    _field = fields._StructureFieldConst

    def __init__(self, members: List[Tuple[str, Any]]) -> None:
        self._members = members
        #: Of each name its index, the type of its fields and its class.
        self._index = {name: (index, cls._field, cls) for index, (name, cls) in enumerate(members)}

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[str]:
        return iter(self._index)

    def __getitem__(self, key: str) -> _StructureFieldClassMemberConst:
        if not isinstance(key, str):
            raise TypeError(f"key must be a 'str' object, got '{type(key).__name__}'")
        return _StructureFieldClassMemberConst(key, self._index[key][2])

    def member_at_index(self, index: int) -> _StructureFieldClassMemberConst:
        check_unsigned(index)
        if index >= len(self._members):
            raise IndexError
        return _StructureFieldClassMemberConst(*self._members[index])


class _OptionFieldClassConst(_FieldClassConst):
    _field = fields._OptionFieldConst

    def __init__(self, content: Any) -> None:
        self._content = content

    @property
    def field_class(self) -> Any:
        return self._content


class _OptionWithoutSelectorFieldClassConst(_OptionFieldClassConst):
    pass


class _OptionWithSelectorFieldClassConst(_OptionFieldClassConst):
    def __init__(self, content: Any, path: Optional[_FieldPathConst]) -> None:
        super().__init__(content)
        self._path = path

    @property
    def selector_field_path(self) -> Optional[_FieldPathConst]:
        return self._path


class _OptionWithBoolSelectorFieldClassConst(_OptionWithSelectorFieldClassConst):
    @property
    def selector_is_reversed(self) -> bool:
        return False


class _OptionWithIntegerSelectorFieldClassConst(_OptionWithSelectorFieldClassConst):
    def __init__(self, content: Any, path: Optional[_FieldPathConst], ranges: _IntegerRangeSetConst) -> None:
        super().__init__(content, path)
        self._ranges = ranges

    @property
    def ranges(self) -> _IntegerRangeSetConst:
        return self._ranges


class _OptionWithUnsignedIntegerSelectorFieldClassConst(_OptionWithIntegerSelectorFieldClassConst):
    pass


class _OptionWithSignedIntegerSelectorFieldClassConst(_OptionWithIntegerSelectorFieldClassConst):
    pass


class _VariantFieldClassOptionConst:
    def __init__(self, name: Optional[str], cls: Any) -> None:
        self._name, self._cls = name, cls

    @property
    def name(self) -> Optional[str]:
        return self._name

    @property
    def field_class(self) -> Any:
        return self._cls

    @property
    def user_attributes(self) -> _MapValueConst:
        return _MapValueConst()


class _VariantFieldClassWithIntegerSelectorOptionConst(_VariantFieldClassOptionConst):
    def __init__(self, name: Optional[str], cls: Any, ranges: _IntegerRangeSetConst) -> None:
        super().__init__(name, cls)
        self._ranges = ranges

    @property
    def ranges(self) -> _IntegerRangeSetConst:
        return self._ranges


class _VariantFieldClassWithUnsignedIntegerSelectorOptionConst(_VariantFieldClassWithIntegerSelectorOptionConst):
    pass


class _VariantFieldClassWithSignedIntegerSelectorOptionConst(_VariantFieldClassWithIntegerSelectorOptionConst):
    pass


class _VariantFieldClassConst(_FieldClassConst, collections.abc.Mapping):  # type: ignore[type-arg]
    _field = fields._VariantFieldConst

    def __init__(self, options: List[Tuple[Optional[str], Any, _IntegerRangeSetConst]]) -> None:
        self._options = options

    def _option(self, index: int) -> Any:
        return _VariantFieldClassOptionConst(*self._options[index][:2])

    def __len__(self) -> int:
        return len(self._options)

    def __iter__(self) -> Iterator[Any]:
        return (option[0] for option in self._options)

    def __getitem__(self, key: str) -> Any:
        check_str(key)
        for index, option in enumerate(self._options):
            if option[0] == key:
                return self._option(index)
        raise KeyError(key)

    def option_at_index(self, index: int) -> Any:
        check_unsigned(index)
        if index >= len(self._options):
            raise IndexError
        return self._option(index)


class _VariantFieldClassWithoutSelectorConst(_VariantFieldClassConst):
    pass


class _VariantFieldClassWithIntegerSelectorConst(_VariantFieldClassConst):
    _option_class: Type[_VariantFieldClassWithIntegerSelectorOptionConst] = _VariantFieldClassWithIntegerSelectorOptionConst

    def __init__(self, options: Any, path: Optional[_FieldPathConst]) -> None:
        super().__init__(options)
        self._path = path

    @property
    def selector_field_path(self) -> Optional[_FieldPathConst]:
        return self._path

    def _option(self, index: int) -> Any:
        return self._option_class(*self._options[index])


class _VariantFieldClassWithUnsignedIntegerSelectorConst(_VariantFieldClassWithIntegerSelectorConst):
    _option_class = _VariantFieldClassWithUnsignedIntegerSelectorOptionConst


class _VariantFieldClassWithSignedIntegerSelectorConst(_VariantFieldClassWithIntegerSelectorConst):
    _option_class = _VariantFieldClassWithSignedIntegerSelectorOptionConst


class _ArrayFieldClassConst(_FieldClassConst):
    def __init__(self, element: Any) -> None:
        self._element = element

    @property
    def element_field_class(self) -> Any:
        return self._element


class _StaticArrayFieldClassConst(_ArrayFieldClassConst):
    _field = fields._StaticArrayFieldConst

    def __init__(self, element: Any, length: int) -> None:
        super().__init__(element)
        self._length = length

    @property
    def length(self) -> int:
        return self._length


class _DynamicArrayFieldClassConst(_ArrayFieldClassConst):
    _field = fields._DynamicArrayFieldConst


class _DynamicArrayWithLengthFieldFieldClassConst(_DynamicArrayFieldClassConst):
    def __init__(self, element: Any, path: Optional[_FieldPathConst]) -> None:
        super().__init__(element)
        self._path = path

    @property
    def length_field_path(self) -> Optional[_FieldPathConst]:
        return self._path


class _BlobFieldClassConst(_FieldClassConst):
    def __init__(self, media_type: str) -> None:
        self._media_type = media_type

    @property
    def media_type(self) -> str:
        return self._media_type


class _StaticBlobFieldClassConst(_BlobFieldClassConst):
    _field = fields._StaticBlobFieldConst

    def __init__(self, media_type: str, length: int) -> None:
        super().__init__(media_type)
        self._length = length

    @property
    def length(self) -> int:
        return self._length


class _DynamicBlobFieldClassConst(_BlobFieldClassConst):
    _field = fields._DynamicBlobFieldConst


class _DynamicBlobWithLengthFieldFieldClassConst(_DynamicBlobFieldClassConst):
    def __init__(self, media_type: str, path: Optional[_FieldPathConst]) -> None:
        super().__init__(media_type)
        self._path = path

    @property
    def length_field_path(self) -> Optional[_FieldPathConst]:
        return self._path


def field_class(of: Tuple[Any, ...]) -> Any:
    """A field class from its description: see `describe.rs`."""
    kind, *parts = of
    if kind == "integer":
        is_signed, bits, base, _, _, mappings = parts
        if mappings is None:
            return (_SignedIntegerFieldClassConst if is_signed else _UnsignedIntegerFieldClassConst)(bits, base)
        enumeration = _SignedEnumerationFieldClassConst if is_signed else _UnsignedEnumerationFieldClassConst
        return enumeration(bits, base, mappings)
    if kind == "boolean":
        return _BoolFieldClassConst()
    if kind == "bits":
        return _BitArrayFieldClassConst(*parts)
    if kind == "real":
        return _SinglePrecisionRealFieldClassConst() if parts[0] <= 32 else _DoublePrecisionRealFieldClassConst()
    if kind == "string":
        return _StringFieldClassConst()
    if kind == "blob":
        media_type, length, path = parts
        if length is not None:
            return _StaticBlobFieldClassConst(media_type, length)
        at = _path(path)
        return _DynamicBlobFieldClassConst(media_type) if at is None else _DynamicBlobWithLengthFieldFieldClassConst(media_type, at)
    if kind == "structure":
        return _StructureFieldClassConst([(name, field_class(member)) for name, member in parts[0]])
    if kind == "array":
        length, path, element = parts
        if length is not None:
            return _StaticArrayFieldClassConst(field_class(element), length)
        if path is None:
            return _DynamicArrayFieldClassConst(field_class(element))
        return _DynamicArrayWithLengthFieldFieldClassConst(field_class(element), _path(path))
    if kind == "option":
        ranges, path, is_signed, content = parts
        at, content = _path(path), field_class(content)
        if ranges is None:
            return _OptionWithoutSelectorFieldClassConst(content)
        if ranges[0]:
            return _OptionWithBoolSelectorFieldClassConst(content, at)
        made = _OptionWithSignedIntegerSelectorFieldClassConst if is_signed else _OptionWithUnsignedIntegerSelectorFieldClassConst
        return made(content, at, _range_set(ranges[1], is_signed))
    path, is_signed, options = parts
    own = [(name, field_class(option), _range_set(ranges, is_signed)) for name, ranges, option in options]
    made_by = _VariantFieldClassWithSignedIntegerSelectorConst if is_signed else _VariantFieldClassWithUnsignedIntegerSelectorConst
    return made_by(own, _path(path))
