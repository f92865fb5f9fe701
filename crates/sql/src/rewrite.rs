//! Changes to statements before they are planned: values of parameters. And what planning needs of them: tables of `overlap(..)`.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, PoisonError};

use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, Statement as Sql, TableAlias, TableFactor, Value, VisitMut, VisitorMut,
};

use crate::overlap::{KnownOverlaps, Overlap};

/// A statement with the values of its parameters. The tables of its calls of `overlap` are looked for.
pub(crate) async fn rewritten(
    context: &SessionContext,
    known: &KnownOverlaps,
    mut statement: Statement,
    parameters: &HashMap<String, ScalarValue>,
) -> Result<Statement> {
    let mut changes = Changes { parameters, found: Vec::new(), error: None };
    changes.visit(&mut statement)?;
    // Once more: arguments may have been parameters.
    changes.visit(&mut statement)?;
    for arguments in changes.found {
        let overlap = Arc::new(Overlap::find(context, &arguments).await?);
        known.lock().unwrap_or_else(PoisonError::into_inner).insert(arguments, overlap);
    }
    Ok(statement)
}

struct Changes<'a> {
    parameters: &'a HashMap<String, ScalarValue>,
    /// Arguments of calls of `overlap` that were met.
    found: Vec<Vec<String>>,
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
        // Planning would look for the name as it is written, and call the table `overlap()`.
        *name = Ident::new("overlap").into();
        alias.get_or_insert_with(|| TableAlias {
            explicit: true,
            name: Ident::new("overlap"),
            columns: Vec::new(),
            at: None,
        });
        let text = |arg: &FunctionArg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) => match &value.value {
                Value::SingleQuotedString(text) => Some(text.clone()),
                _ => None,
            },
            _ => None,
        };
        // Others are wrong, as planning says.
        let arguments: Option<Vec<String>> = args.args.iter().map(text).collect();
        let arguments = arguments.filter(|arguments| (2..=3).contains(&arguments.len()));
        self.found.extend(arguments.filter(|arguments| !self.found.contains(arguments)));
        ControlFlow::Continue(())
    }
}
