//! Conditions of queries that a scan takes over: what it decides before it reads, and what it decides with columns.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Int32Array, RecordBatch, RecordBatchOptions, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column as ColumnExpr, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use tracemill_engine::selection::ClassSet;
use tracemill_model::schema::EventClassId;

use crate::database::Database;
use crate::event_columns::EventColumn;
use crate::table::{EventTable, TableColumn};

/// A condition of a query.
pub(crate) type Condition = Arc<dyn PhysicalExpr>;

/// Can a scan decide it? Comparisons of a column with literals, and `and`, `or`, `not` of these. Nothing among them fails.
pub(crate) fn is_taken(condition: &Condition, schema: &Schema) -> bool {
    let is_taken = |of: &Condition| is_taken(of, schema);
    let is_value = |of: &Condition| is_value(of, schema);
    if let Some(binary) = condition.downcast_ref::<BinaryExpr>() {
        let (left, right) = (binary.left(), binary.right());
        return match binary.op() {
            Operator::And | Operator::Or => is_taken(left) && is_taken(right),
            Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom => is_value(left) && is_literal(right) || is_literal(left) && is_value(right),
            _ => false,
        };
    }
    if let Some(not) = condition.downcast_ref::<NotExpr>() {
        return is_taken(not.arg());
    }
    if let Some(of) = condition.downcast_ref::<IsNullExpr>() {
        return is_value(of.arg());
    }
    if let Some(of) = condition.downcast_ref::<IsNotNullExpr>() {
        return is_value(of.arg());
    }
    if let Some(list) = condition.downcast_ref::<InListExpr>() {
        return is_value(list.expr()) && list.list().iter().all(is_literal);
    }
    if let Some(like) = condition.downcast_ref::<LikeExpr>() {
        return is_value(like.expr()) && is_literal(like.pattern());
    }
    condition.is::<ColumnExpr>() || is_literal(condition)
}

fn is_literal(of: &Condition) -> bool {
    of.is::<Literal>()
}

/// A column, bits of one, or its values as those of a kind that holds them all, as a literal of that kind asks for.
fn is_value(of: &Condition, schema: &Schema) -> bool {
    if let Some(binary) = of.downcast_ref::<BinaryExpr>() {
        let is_mask = *binary.op() == Operator::BitwiseAnd;
        return is_mask && is_value(binary.left(), schema) && is_literal(binary.right());
    }
    if let Some(cast) = of.downcast_ref::<CastExpr>() {
        let Ok(from) = cast.expr().data_type(schema) else { return false };
        let never_fails = match cast.cast_type() {
            DataType::Float64 => from.is_integer() || from.is_floating(),
            DataType::Int64 => matches!(from, DataType::Int8 | DataType::Int16 | DataType::Int32),
            // Integers of 64 bits have up to 20 digits.
            DataType::Decimal128(digits, scale) => from.is_integer() && i16::from(*digits) - i16::from(*scale) >= 20,
            _ => false,
        };
        return never_fails && is_value(cast.expr(), schema);
    }
    of.is::<ColumnExpr>()
}

/// The part of a stream that is read.
#[derive(Clone)]
pub(crate) struct StreamScan {
    /// Classes that are wanted; `None` for none at all.
    pub(crate) classes: Option<Arc<ClassSet>>,
    /// First and last ns, both included.
    pub(crate) times: Option<(i128, i128)>,
}

/// The outcome of deciding the conditions of a scan.
pub(crate) struct Decided {
    /// By stream of the database.
    pub(crate) streams: Vec<StreamScan>,
    /// Conditions that need the values of events.
    pub(crate) left: Vec<Condition>,
}

/// Decides what can be decided before anything is read. Columns of conditions are those of the table, and beyond.
pub(crate) fn decide(database: &Database, table: &EventTable, conditions: &[Condition]) -> Result<Decided> {
    let parts: Vec<Condition> =
        conditions.iter().flat_map(|condition| split_conjunction(condition)).map(Arc::clone).collect();
    let event_column = |column: &ColumnExpr| match table.columns.get(column.index()) {
        Some(TableColumn::Event(column)) => Some(*column),
        _ => None,
    };
    let has_open_ids = database.has_open_ids();
    // All events of a class have one value.
    let is_static = |column: EventColumn| match column {
        EventColumn::Trace | EventColumn::StreamName | EventColumn::Class | EventColumn::Stream => true,
        EventColumn::Name | EventColumn::Id => !has_open_ids,
        EventColumn::Event
        | EventColumn::Ns
        | EventColumn::Time
        | EventColumn::Cycles
        | EventColumn::Cpu
        | EventColumn::Packet => false,
    };
    let mut pairs = Vec::new();
    for (stream, of) in database.streams.iter().enumerate() {
        let trace = &database.session.traces[of.trace];
        let selected = database.selection.classes.get(of.trace).cloned().flatten();
        for (at, class) in trace.schema.events().iter().enumerate() {
            let id = EventClassId(at as u32);
            let is_wanted = selected.as_ref().is_none_or(|classes| classes.has(id.0));
            if class.stream == of.stream.class && is_wanted && table.has(of.trace, id) {
                pairs.push((stream, id));
            }
        }
    }
    let (mut left, mut range) = (Vec::new(), None);
    let mut needs = Needs::default();
    for part in parts {
        let columns: Vec<Option<EventColumn>> = collect_columns(&part).iter().map(event_column).collect();
        if columns.iter().all(|column| column.is_some_and(is_static)) {
            retain_classes(database, table, &part, &mut pairs)?;
        } else if let Some((column, (first, last))) = time_range(&part, &event_column) {
            let (low, high) = range.unwrap_or((i128::MIN, i128::MAX));
            range = Some((low.max(first), high.min(last)));
            needs.time = true;
            needs.date |= column == EventColumn::Time;
        } else {
            if let Some(((first, last), is_date)) = loose_range(&part, &event_column) {
                let (low, high) = range.unwrap_or((i128::MIN, i128::MAX));
                range = Some((low.max(first), high.min(last)));
                needs.time = true;
                needs.date |= is_date;
            }
            left.push(part);
        }
    }
    if needs.time {
        // A NULL is in no range.
        pairs.retain(|&(stream, class)| {
            let of = &database.streams[stream];
            let is_untimed = database.session.traces[of.trace].schema.event(class).is_untimed;
            of.clock.is_some() && !is_untimed && (!needs.date || database.has_dates(of))
        });
        let (low, high) = range.unwrap_or((i128::MIN, i128::MAX));
        range = Some((low.max(i64::MIN.into()), high.min(i64::MAX.into())));
    }
    let wanted: HashSet<(usize, EventClassId)> = pairs.into_iter().collect();
    let streams = database.streams.iter().enumerate().map(|(stream, of)| {
        let count = database.session.traces[of.trace].schema.events().len();
        let is_wanted = |class: usize| wanted.contains(&(stream, EventClassId(class as u32)));
        let is_empty = !(0..count).any(is_wanted) || range.is_some_and(|(first, last)| first > last);
        let of_trace = database.selection.of_traces_ns.get(of.trace).copied().flatten();
        let begin = [database.selection.begin_ns, range.map(|(first, _)| first), of_trace.map(|(begin, _)| begin)];
        let end = [database.selection.end_ns, range.map(|(_, last)| last), of_trace.map(|(_, end)| end)];
        let begin = begin.into_iter().flatten().max();
        let end = end.into_iter().flatten().min();
        let times = (begin.is_some() || end.is_some()).then(|| (begin.unwrap_or(i128::MIN), end.unwrap_or(i128::MAX)));
        StreamScan { classes: (!is_empty).then(|| Arc::new(ClassSet::new(count, is_wanted))), times }
    });
    Ok(Decided { streams: streams.collect(), left })
}

/// The times that conditions use.
#[derive(Default)]
struct Needs {
    time: bool,
    date: bool,
}

/// Keeps the streams and classes for which a condition is true.
fn retain_classes(
    database: &Database,
    table: &EventTable,
    condition: &Condition,
    pairs: &mut Vec<(usize, EventClassId)>,
) -> Result<()> {
    let schema = |stream: usize| &database.session.traces[database.streams[stream].trace].schema;
    let number = |of: &dyn Fn(usize, EventClassId) -> Option<u64>| -> ArrayRef {
        Arc::new(UInt64Array::from_iter(pairs.iter().map(|&(stream, class)| of(stream, class))))
    };
    let key = |names: &ArrayRef, of: &dyn Fn(usize, EventClassId) -> Option<i32>| -> Result<ArrayRef> {
        let keys = Int32Array::from_iter(pairs.iter().map(|&(stream, class)| of(stream, class)));
        Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, names.clone())?))
    };
    let used: HashSet<usize> = collect_columns(condition).iter().map(ColumnExpr::index).collect();
    let mut columns: Vec<ArrayRef> = Vec::new();
    let mut fields: Vec<Field> = Vec::new();
    for (at, field) in table.schema.fields().iter().enumerate() {
        fields.push(field.as_ref().clone());
        let Some(TableColumn::Event(column)) = table.columns.get(at).filter(|_| used.contains(&at)) else {
            columns.push(arrow_array::new_null_array(field.data_type(), pairs.len()));
            continue;
        };
        columns.push(match column {
            EventColumn::Trace => key(&database.trace_names, &|stream, _| Some(database.streams[stream].trace as i32))?,
            EventColumn::StreamName => key(&database.stream_names, &|stream, _| Some(stream as i32))?,
            EventColumn::Name => key(&database.class_names, &|stream, class| {
                database.class_name_of[database.streams[stream].trace][class.0 as usize]
            })?,
            EventColumn::Id => number(&|stream, class| Some(schema(stream).event(class).id)),
            EventColumn::Stream => number(&|stream, class| {
                let of = schema(stream).stream(schema(stream).event(class).stream);
                (!of.has_no_id).then_some(of.id)
            }),
            EventColumn::Class => Arc::new(Int32Array::from_iter_values(
                pairs
                    .iter()
                    .map(|&(stream, class)| database.class_number(database.streams[stream].trace, class) as i32),
            )),
            // Conditions on these are not decided by class.
            EventColumn::Event
            | EventColumn::Ns
            | EventColumn::Time
            | EventColumn::Cycles
            | EventColumn::Cpu
            | EventColumn::Packet => arrow_array::new_null_array(field.data_type(), pairs.len()),
        });
    }
    let options = RecordBatchOptions::new().with_row_count(Some(pairs.len()));
    let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?;
    let is_true = matches(condition, &batch)?;
    let mut at = 0;
    pairs.retain(|_| {
        at += 1;
        is_true.value(at - 1)
    });
    Ok(())
}

/// For which rows is a condition true? NULL is not.
pub(crate) fn matches(condition: &Condition, batch: &RecordBatch) -> Result<BooleanArray> {
    let value = condition.evaluate(batch)?.into_array(batch.num_rows())?;
    let value = match value.data_type() {
        arrow_schema::DataType::Boolean => value,
        _ => arrow_cast::cast(&value, &arrow_schema::DataType::Boolean)?,
    };
    let value = value.as_boolean();
    Ok(match value.nulls() {
        None => value.clone(),
        Some(nulls) => BooleanArray::new(value.values() & nulls.inner(), None),
    })
}

/// The range of times that a condition is, when it is one: the first and the last ns.
fn time_range(
    condition: &Condition,
    event_column: &dyn Fn(&ColumnExpr) -> Option<EventColumn>,
) -> Option<(EventColumn, (i128, i128))> {
    let binary = condition.downcast_ref::<BinaryExpr>()?;
    let (column, literal, op) =
        match (binary.left().downcast_ref::<ColumnExpr>(), binary.right().downcast_ref::<ColumnExpr>()) {
            (Some(column), None) => (column, binary.right().downcast_ref::<Literal>()?, *binary.op()),
            (None, Some(column)) => (column, binary.left().downcast_ref::<Literal>()?, binary.op().swap()?),
            _ => return None,
        };
    let column = event_column(column).filter(|column| matches!(column, EventColumn::Ns | EventColumn::Time))?;
    let ns = ns_of(literal.value())?;
    let range = match op {
        Operator::Eq => (ns, ns),
        Operator::Lt => (i128::MIN, ns - 1),
        Operator::LtEq => (i128::MIN, ns),
        Operator::Gt => (ns + 1, i128::MAX),
        Operator::GtEq => (ns, i128::MAX),
        _ => return None,
    };
    Some((column, range))
}

/// The time that a literal is.
fn ns_of(value: &ScalarValue) -> Option<i128> {
    match value {
        ScalarValue::Int64(Some(ns)) | ScalarValue::TimestampNanosecond(Some(ns), _) => Some(i128::from(*ns)),
        _ => None,
    }
}

/// A range of times outside of which a condition is not true, when it has one; and whether it needs a date.
fn loose_range(
    condition: &Condition,
    event_column: &dyn Fn(&ColumnExpr) -> Option<EventColumn>,
) -> Option<((i128, i128), bool)> {
    if let Some((column, range)) = time_range(condition, event_column) {
        return Some((range, column == EventColumn::Time));
    }
    if let Some(list) = condition.downcast_ref::<InListExpr>().filter(|list| !list.negated()) {
        let column = event_column(list.expr().downcast_ref::<ColumnExpr>()?)?;
        if !matches!(column, EventColumn::Ns | EventColumn::Time) {
            return None;
        }
        let times = list.list().iter().map(|value| ns_of(value.downcast_ref::<Literal>()?.value()));
        let times = times.collect::<Option<Vec<i128>>>()?;
        return Some(((*times.iter().min()?, *times.iter().max()?), column == EventColumn::Time));
    }
    let binary = condition.downcast_ref::<BinaryExpr>()?;
    let sides = (loose_range(binary.left(), event_column), loose_range(binary.right(), event_column));
    match (binary.op(), sides) {
        (Operator::And, (Some((a, is_date)), Some((b, is_other_date)))) => {
            Some(((a.0.max(b.0), a.1.min(b.1)), is_date || is_other_date))
        }
        (Operator::And, (Some(side), None) | (None, Some(side))) => Some(side),
        (Operator::Or, (Some((a, is_date)), Some((b, is_other_date)))) => {
            // An empty range does not widen the other one.
            let range = match (a.0 > a.1, b.0 > b.1) {
                (true, _) => b,
                (_, true) => a,
                _ => (a.0.min(b.0), a.1.max(b.1)),
            };
            Some((range, is_date && is_other_date))
        }
        _ => None,
    }
}

/// A condition in the language of filters, for people.
pub(crate) fn in_words(condition: &Condition, name: &dyn Fn(usize) -> String) -> String {
    let inside = |of: &Condition| in_words(of, name);
    if let Some(column) = condition.downcast_ref::<ColumnExpr>() {
        return name(column.index());
    }
    if let Some(literal) = condition.downcast_ref::<Literal>() {
        return literal_in_words(literal.value());
    }
    if let Some(binary) = condition.downcast_ref::<BinaryExpr>() {
        let op = match binary.op() {
            Operator::And => "and",
            Operator::Or => "or",
            Operator::Eq | Operator::IsNotDistinctFrom => "==",
            Operator::NotEq | Operator::IsDistinctFrom => "!=",
            Operator::Lt => "<",
            Operator::LtEq => "<=",
            Operator::Gt => ">",
            Operator::GtEq => ">=",
            Operator::BitwiseAnd => "&",
            _ => return condition.to_string(),
        };
        let side = |of: &Condition| match of.downcast_ref::<BinaryExpr>() {
            Some(other) if matches!(other.op(), Operator::And | Operator::Or) && other.op() != binary.op() => {
                format!("({})", inside(of))
            }
            _ => inside(of),
        };
        return format!("{} {op} {}", side(binary.left()), side(binary.right()));
    }
    if let Some(not) = condition.downcast_ref::<NotExpr>() {
        return format!("not ({})", inside(not.arg()));
    }
    if let Some(cast) = condition.downcast_ref::<CastExpr>() {
        return inside(cast.expr());
    }
    if let Some(of) = condition.downcast_ref::<IsNullExpr>() {
        return format!("{} is null", inside(of.arg()));
    }
    if let Some(of) = condition.downcast_ref::<IsNotNullExpr>() {
        return format!("{} is not null", inside(of.arg()));
    }
    if let Some(list) = condition.downcast_ref::<InListExpr>() {
        let (op, word) = if list.negated() { ("!=", " and ") } else { ("==", " or ") };
        let of = inside(list.expr());
        let each: Vec<String> = list.list().iter().map(|value| format!("{of} {op} {}", inside(value))).collect();
        return format!("({})", each.join(word));
    }
    if let Some(like) = condition.downcast_ref::<LikeExpr>() {
        let op = if like.negated() { "not like" } else { "like" };
        return format!("{} {op} {}", inside(like.expr()), inside(like.pattern()));
    }
    condition.to_string()
}

fn literal_in_words(value: &ScalarValue) -> String {
    match value {
        ScalarValue::Dictionary(_, value) => literal_in_words(value),
        ScalarValue::Utf8(Some(text)) | ScalarValue::LargeUtf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => {
            format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
        }
        other => other.to_string(),
    }
}
