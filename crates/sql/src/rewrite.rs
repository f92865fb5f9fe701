//! Changes to statements before they are planned: values of parameters, and `overlap(..)` as the join that it is.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::common::{DataFusionError, Result, ScalarValue, plan_err};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, SetExpr, Statement as Sql, TableAlias, TableFactor, Value, VisitMut,
    VisitorMut,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

/// A statement with the values of its parameters, and its calls of `overlap` as joins.
pub(crate) async fn rewritten(
    context: &SessionContext,
    mut statement: Statement,
    parameters: &HashMap<String, ScalarValue>,
) -> Result<Statement> {
    let mut changes = Changes { parameters, found: Vec::new(), joins: HashMap::new(), error: None };
    changes.visit(&mut statement)?;
    for arguments in std::mem::take(&mut changes.found) {
        let join = overlap(context, &arguments).await?;
        changes.joins.insert(arguments, join);
    }
    if !changes.joins.is_empty() {
        changes.visit(&mut statement)?;
    }
    Ok(statement)
}

struct Changes<'a> {
    parameters: &'a HashMap<String, ScalarValue>,
    /// Arguments of calls of `overlap` that were met.
    found: Vec<Vec<String>>,
    joins: HashMap<Vec<String>, String>,
    error: Option<DataFusionError>,
}

impl Changes<'_> {
    fn visit(&mut self, statement: &mut Statement) -> Result<()> {
        match statement {
            Statement::Statement(sql) => self.visit_sql(sql),
            Statement::Explain(explain) => self.visit(&mut explain.statement),
            _ => Ok(()),
        }
    }

    fn visit_sql(&mut self, sql: &mut Sql) -> Result<()> {
        let _ = sql.visit(self);
        self.error.take().map_or(Ok(()), Err)
    }

    fn fail(&mut self, error: DataFusionError) -> ControlFlow<()> {
        self.error = Some(error);
        ControlFlow::Break(())
    }
}

impl VisitorMut for Changes<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        let Expr::Value(value) = expression else { return ControlFlow::Continue(()) };
        let Value::Placeholder(name) = &value.value else { return ControlFlow::Continue(()) };
        let name = name.trim_start_matches('$');
        let Some(known) = self.parameters.get(name) else {
            let message = format!("the parameter ${name} has no value: give it one with `-p {name}=VALUE`");
            return self.fail(DataFusionError::Plan(message));
        };
        value.value = match known {
            ScalarValue::Null => Value::Null,
            ScalarValue::Boolean(Some(known)) => Value::Boolean(*known),
            ScalarValue::Utf8(Some(text)) => Value::SingleQuotedString(text.clone()),
            number => Value::Number(number.to_string(), false),
        };
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let TableFactor::Table { name, alias, args: Some(args), .. } = factor else { return ControlFlow::Continue(()) };
        if !name.to_string().eq_ignore_ascii_case("overlap") {
            return ControlFlow::Continue(());
        }
        let text = |arg: &FunctionArg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) => match &value.value {
                Value::SingleQuotedString(text) => Some(text.clone()),
                _ => None,
            },
            _ => None,
        };
        let arguments: Option<Vec<String>> = args.args.iter().map(text).collect();
        let Some(arguments) = arguments.filter(|arguments| (2..=3).contains(&arguments.len())) else {
            let message = "`overlap` takes the names of two tables, and maybe keys, all in quotes".to_string();
            return self.fail(DataFusionError::Plan(message));
        };
        let Some(join) = self.joins.get(&arguments) else {
            self.found.push(arguments);
            return ControlFlow::Continue(());
        };
        let parsed = Parser::parse_sql(&GenericDialect {}, join);
        let query = match parsed {
            Ok(mut statements) => match statements.pop() {
                Some(Sql::Query(query)) => query,
                _ => return self.fail(DataFusionError::Plan("`overlap` became no query".into())),
            },
            Err(error) => return self.fail(DataFusionError::SQL(Box::new(error), None)),
        };
        debug_assert!(matches!(*query.body, SetExpr::Select(_)));
        let alias = alias.take().unwrap_or_else(|| TableAlias {
            explicit: true,
            name: Ident::new("overlap"),
            columns: Vec::new(),
            at: None,
        });
        *factor = TableFactor::Derived { lateral: false, subquery: query, alias: Some(alias), sample: None };
        ControlFlow::Continue(())
    }
}

/// The join that a call of `overlap` is.
async fn overlap(context: &SessionContext, arguments: &[String]) -> Result<String> {
    let [a, b, rest @ ..] = arguments else { return plan_err!("`overlap` takes the names of two tables") };
    let keys: Vec<&str> = rest.first().map_or("", String::as_str).split(',').map(str::trim).collect();
    let keys: Vec<&str> = keys.into_iter().filter(|key| !key.is_empty()).collect();
    let mut columns = Vec::new();
    for name in [a, b] {
        let provider = context.table_provider(datafusion::common::TableReference::bare(name.as_str())).await?;
        let schema = provider.schema();
        for wanted in ["ns", "dur"].iter().chain(&keys) {
            if schema.index_of(wanted).is_err() {
                return plan_err!("`{name}` has no column `{wanted}`, which `overlap` needs");
            }
        }
        columns.push(schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>());
    }
    let exact = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let mut taken: Vec<String> = ["ns", "dur"].iter().chain(&keys).map(|name| name.to_string()).collect();
    let mut select = vec![
        "greatest(a.ns, b.ns) as ns".to_string(),
        "least(a.ns + a.dur, b.ns + b.dur) - greatest(a.ns, b.ns) as dur".to_string(),
    ];
    select.extend(keys.iter().map(|key| format!("a.{0} as {0}", exact(key))));
    for (side, names) in ["a", "b"].iter().zip(&columns) {
        for name in
            names.iter().filter(|name| !["ns", "dur"].contains(&name.as_str()) && !keys.contains(&name.as_str()))
        {
            let (mut own, mut number) = (name.clone(), 2);
            while taken.contains(&own) {
                own = format!("{name}_{number}");
                number += 1;
            }
            select.push(format!("{side}.{} as {}", exact(name), exact(&own)));
            taken.push(own);
        }
    }
    let equal: String = keys.iter().map(|key| format!("a.{0} = b.{0} and ", exact(key))).collect();
    Ok(format!(
        "select {} from {} a join {} b on {equal}a.ns < b.ns + b.dur and b.ns < a.ns + a.dur where a.dur > 0 and b.dur > 0",
        select.join(", "),
        exact(a),
        exact(b)
    ))
}
