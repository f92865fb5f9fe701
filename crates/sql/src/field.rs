//! `field(SCOPE, 'path')`: one field of whatever class has it.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::{DataFusionError, Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ExpressionPlacement, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::{Column as ColumnExpr, Literal};
use tracemill_codec::plan::{NodeId, Plan};
use tracemill_codec::text::closest;
use tracemill_columns::{ChosenColumns, ColumnRequest};
use tracemill_model::schema::{EventClassId, FieldClassId, FieldKind, Schema, Scope};

use crate::database::Database;
use crate::kinds::SqlKind;
use crate::table::{ColumnPlace, FieldColumn, Merged, SCOPES, ValueStep, bits_of, children, plan_of};

/// The function. A scan makes its values of fields; it is never called.
#[derive(Debug)]
pub(crate) struct FieldFunction {
    database: Arc<Database>,
    signature: Signature,
}

impl FieldFunction {
    pub(crate) fn new(database: &Arc<Database>) -> Self {
        FieldFunction { database: database.clone(), signature: Signature::any(2, Volatility::Immutable) }
    }

    /// The scope and the path of a call in a plan, when it is one of a column and a literal.
    pub(crate) fn arguments(call: &ScalarFunctionExpr) -> Option<(String, String)> {
        if !call.fun().inner().is::<FieldFunction>() {
            return None;
        }
        let [scope, path] = call.args() else { return None };
        let scope = scope.downcast_ref::<ColumnExpr>()?.name().to_string();
        Some((scope, text_of(path.downcast_ref::<Literal>()?.value())?))
    }
}

/// The text that a literal is.
pub(crate) fn text_of(value: &ScalarValue) -> Option<String> {
    match value {
        ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text) => text.clone(),
        _ => None,
    }
}

impl PartialEq for FieldFunction {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.database, &other.database)
    }
}

impl Eq for FieldFunction {}

impl std::hash::Hash for FieldFunction {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl ScalarUDFImpl for FieldFunction {
    fn name(&self) -> &str {
        "field"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        plan_err!("the second argument of `field` is a path in quotes")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let scope = args.arg_fields[0].name();
        let path = args.scalar_arguments.get(1).copied().flatten().and_then(text_of);
        let Some(path) = path else { return plan_err!("the second argument of `field` is a path in quotes") };
        let column = path_column(&self.database, scope, &path)?;
        Ok(Arc::new(Field::new("field", column.data_type, true)))
    }

    fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement {
        match args {
            [ExpressionPlacement::Column, ExpressionPlacement::Literal] => ExpressionPlacement::MoveTowardsLeafNodes,
            _ => ExpressionPlacement::KeepInPlace,
        }
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(DataFusionError::Execution(
            "`field` reads the columns of `events` themselves: name it in a query of that table, not after a join or a group"
                .into(),
        ))
    }
}

/// The column of a path below a scope: the field of every class that has it.
pub(crate) fn path_column(database: &Database, scope: &str, path: &str) -> Result<FieldColumn> {
    let Some(scope) = SCOPES.into_iter().find(|known| known.key() == scope) else {
        let scopes: Vec<String> = SCOPES.iter().map(|scope| format!("`{}`", scope.key())).collect();
        return plan_err!("the first argument of `field` is a column of `events`: {}", scopes.join(", "));
    };
    let Some(steps) = parse(path) else { return plan_err!("`{path}` is not a path of a field") };
    let mut merged: Option<Merged> = None;
    let mut names: Vec<String> = Vec::new();
    for (trace, of) in database.session.traces.iter().enumerate() {
        for class in (0..of.schema.events().len() as u32).map(EventClassId) {
            let Some(root) = of.schema.scope_root(scope, class) else { continue };
            let (plan, section) = plan_of(&database.session, trace, class, scope);
            let Some(node) = plan.roots.get(section).copied().flatten() else { continue };
            match place(&of.schema, plan, scope, (root, node), &steps) {
                Some(place) => {
                    let path = || (path.to_string(), format!("{}.{path}", scope.key()));
                    let merged = merged.get_or_insert_with(|| {
                        let (name, path) = path();
                        Merged::new(name, path, place.kind.clone())
                    });
                    merged.add((trace, class), place);
                }
                None => names.extend(of.schema.members(Some(root)).iter().map(|member| member.name.to_string())),
            }
        }
    }
    match merged {
        Some(merged) => Ok(merged.into_column()),
        None => {
            names.sort();
            names.dedup();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let near = closest(path, &names).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            plan_err!("no event class has the field `{}.{path}`{near}", scope.key())
        }
    }
}

/// The column of a member of a structure, when it can be decoded alone: the structure stands in all classes by itself, and
/// the member has the type that it has inside of it.
pub(crate) fn member_column(
    database: &Database,
    of: &FieldColumn,
    names: &[String],
    data_type: &DataType,
) -> Option<FieldColumn> {
    let path = format!("{}.{}", of.path, names.join("."));
    let mut classes: Vec<_> = of.places.iter().collect();
    classes.sort_by_key(|(class, _)| **class);
    let mut merged: Option<Merged> = None;
    for (&(trace, event), place) in classes {
        if place.wish != ColumnRequest::Value || !place.steps.is_empty() {
            return None;
        }
        let schema = &database.session.traces[trace].schema;
        let (plan, _) = plan_of(&database.session, trace, event, place.scope);
        let (mut class, mut node, mut is_there) = (place.class, place.node, true);
        for name in names {
            let FieldKind::Struct(of) = &schema.field_class(class).kind else { return None };
            let named = of.members.iter().enumerate().filter(|(_, member)| *member.name == **name);
            let at = match named.map(|(at, _)| at).collect::<Vec<_>>().as_slice() {
                [] => {
                    is_there = false;
                    break;
                }
                [at] => *at,
                _ => return None,
            };
            (class, node) = (of.members[at].class, children(plan, node).nth(at)?);
        }
        if !is_there {
            continue;
        }
        let fields = ChosenColumns::new(schema, plan, &[(node, ColumnRequest::Value)]).fields();
        let kind = SqlKind { data_type: fields.first()?.data_type().clone(), bits: bits_of(schema, class) };
        let found = ColumnPlace { node, kind: kind.clone(), class, ..place.clone() };
        merged.get_or_insert_with(|| Merged::new(names.join("."), path.clone(), kind)).add((trace, event), found);
    }
    let column = merged?.into_column();
    (column.data_type == *data_type).then_some(column)
}

/// A step of a path as it is written.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Written {
    Member(String),
    Element(u64),
}

/// Reads a path: names with `.` between them, in backquotes where they hold others than letters, and `[0]` for elements.
fn parse(text: &str) -> Option<Vec<Written>> {
    let (mut rest, mut steps) = (text.trim(), Vec::new());
    while !rest.is_empty() {
        if let Some(index) = rest.strip_prefix('[') {
            let (number, behind) = index.split_once(']')?;
            steps.push(Written::Element(number.trim().parse().ok()?));
            rest = behind;
            continue;
        }
        if !steps.is_empty() {
            rest = rest.strip_prefix('.')?;
        }
        let (name, behind) = match rest.strip_prefix('`') {
            Some(quoted) => quoted.split_once('`')?,
            None => rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len())),
        };
        if name.is_empty() {
            return None;
        }
        steps.push(Written::Member(name.to_string()));
        rest = behind;
    }
    (!steps.is_empty()).then_some(steps)
}

/// Where a path leads in a class: a node that is always there, and the way from it.
fn place(
    schema: &Schema,
    plan: &Plan,
    scope: Scope,
    root: (FieldClassId, NodeId),
    path: &[Written],
) -> Option<ColumnPlace> {
    let (mut class, mut node) = root;
    let mut steps: Vec<ValueStep> = Vec::new();
    let mut path = path.iter().peekable();
    // As far as structures are always there, nodes are chosen; what is inside of other values is taken out of those.
    while let (FieldKind::Struct(of), Some(Written::Member(name))) = (&schema.field_class(class).kind, path.peek()) {
        let at = of.members.iter().position(|member| *member.name == **name)?;
        (class, node) = (of.members[at].class, children(plan, node).nth(at)?);
        path.next();
    }
    for step in path {
        while let FieldKind::Optional(optional) = &schema.field_class(class).kind {
            class = optional.content;
        }
        class = match (&schema.field_class(class).kind, step) {
            (FieldKind::Struct(of), Written::Member(name)) => {
                let at = of.members.iter().position(|member| *member.name == **name)?;
                steps.push(ValueStep::Member(at));
                of.members[at].class
            }
            (FieldKind::Variant(of), Written::Member(name)) => {
                let named = |at: usize| of.options[at].name.as_deref().map_or_else(|| at.to_string(), str::to_string);
                let at = (0..of.options.len()).find(|&at| named(at) == *name)?;
                steps.push(ValueStep::Member(at));
                of.options[at].class
            }
            (FieldKind::Array(of), Written::Element(index)) => {
                steps.push(ValueStep::Element(*index));
                of.element
            }
            _ => return None,
        };
    }
    let fields = ChosenColumns::new(schema, plan, &[(node, ColumnRequest::Value)]).fields();
    let mut data_type = fields.first()?.data_type().clone();
    for step in &steps {
        data_type = match (step, data_type) {
            (ValueStep::Member(at), DataType::Struct(members)) => members.get(*at)?.data_type().clone(),
            (ValueStep::Element(_), DataType::List(item)) => item.data_type().clone(),
            _ => return None,
        };
    }
    if !steps.is_empty()
        && matches!(crate::table::content(schema, class).kind, FieldKind::Integer(_) | FieldKind::BitMap(_))
    {
        // An enumeration is its integer.
        if let DataType::Struct(parts) = &data_type {
            data_type = parts.first()?.data_type().clone();
        }
    }
    let kind = SqlKind { data_type, bits: bits_of(schema, class) };
    Some(ColumnPlace { scope, node, wish: ColumnRequest::Value, steps, kind, class })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_names_and_elements() {
        let member = |name: &str| Written::Member(name.into());
        assert_eq!(parse("a.b"), Some(vec![member("a"), member("b")]));
        assert_eq!(parse("a[3].`b.c`"), Some(vec![member("a"), Written::Element(3), member("b.c")]));
        for wrong in ["", ".a", "a.", "a[", "a[x]", "a..b", "`a"] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }
}
