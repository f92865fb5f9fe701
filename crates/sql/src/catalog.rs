//! Names of tables: ours in `main`, those of classes in `event`, and what users make.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider, UrlTableFactory};
use datafusion::common::{Result, plan_err};
use datafusion::datasource::dynamic_file::DynamicListTableFactory;
use datafusion::prelude::SessionContext;
use datafusion_session::SessionStore;

use crate::calls::CallTable;
use crate::database::Database;
use crate::metadata_tables::{KINDS, MetadataTable};
use crate::provider::Provided;
use crate::samples::{SampleTable, SampleTableKind};
use crate::scan::EventProvider;
use crate::state_tables::{StateTable, StateTableKind};

/// The name of the catalog.
pub(crate) const CATALOG: &str = "tracemill";
/// The schema of our tables.
pub(crate) const MAIN: &str = "main";
/// The schema of the tables of classes.
pub(crate) const EVENT: &str = "event";

/// The catalog of a database.
#[derive(Debug)]
pub(crate) struct Catalog {
    main: Arc<Main>,
    event: Arc<ClassTables>,
}

/// Our tables, then those of users, then those of classes.
#[derive(Debug)]
struct Main {
    database: Arc<Database>,
    event: Arc<ClassTables>,
    files: Arc<DynamicListTableFactory>,
    users: RwLock<BTreeMap<String, Arc<dyn TableProvider>>>,
}

/// The tables of classes.
#[derive(Debug)]
struct ClassTables {
    database: Arc<Database>,
}

impl Catalog {
    pub(crate) fn new(database: &Arc<Database>, context: &SessionContext) -> Self {
        let event = Arc::new(ClassTables { database: database.clone() });
        let files = Arc::new(DynamicListTableFactory::new(SessionStore::new()));
        files.session_store().with_state(context.state_weak_ref());
        let main = Main { database: database.clone(), event: event.clone(), files, users: RwLock::default() };
        Catalog { main: Arc::new(main), event }
    }
}

impl CatalogProvider for Catalog {
    fn schema_names(&self) -> Vec<String> {
        vec![MAIN.into(), EVENT.into()]
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        match name {
            MAIN => Some(self.main.clone()),
            EVENT => Some(self.event.clone()),
            _ => None,
        }
    }
}

impl Main {
    /// The name of our table, whatever the case in which it is written.
    fn table_name(name: &str) -> Option<&'static str> {
        let defined = StateTableKind::DEFINED.into_iter().map(StateTableKind::name);
        own_names().chain(defined).find(|own| own.eq_ignore_ascii_case(name))
    }

    fn users(&self) -> BTreeMap<String, Arc<dyn TableProvider>> {
        self.users.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Is a name that of a file with a table in it, by its ending? Folders and traces are none.
pub(crate) fn is_file(name: &str) -> bool {
    [".csv", ".parquet", ".json", ".jsonl", ".ndjson", ".arrow"].iter().any(|ending| name.ends_with(ending))
}

/// The names of our tables that are always there.
pub(crate) fn own_names() -> impl Iterator<Item = &'static str> {
    let states = StateTableKind::BUILT_IN.into_iter().map(StateTableKind::name);
    ["events", "calls", "samples", "stacks"].into_iter().chain(states).chain(KINDS.iter().map(|kind| kind.name))
}

#[async_trait]
impl SchemaProvider for Main {
    fn table_names(&self) -> Vec<String> {
        let own = own_names().chain(self.database.defined_names()).map(str::to_string);
        own.chain(self.users().into_keys()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let database = &self.database;
        match Main::table_name(name) {
            Some("events") => {
                return Ok(Some(Arc::new(Provided(EventProvider {
                    database: database.clone(),
                    table: database.events(),
                }))));
            }
            Some("calls") => return Ok(Some(Arc::new(Provided(CallTable::new(database))))),
            Some("samples") => {
                return Ok(Some(Arc::new(Provided(SampleTable::new(database, SampleTableKind::Samples)))));
            }
            Some("stacks") => return Ok(Some(Arc::new(Provided(SampleTable::new(database, SampleTableKind::Stacks))))),
            Some(own) => {
                if let Some(kind) = StateTableKind::from_name(own) {
                    return Ok(Some(Arc::new(Provided(StateTable::new(database, kind)?))));
                }
                let kind = KINDS.iter().find(|kind| kind.name == own);
                return Ok(
                    kind.map(|kind| Arc::new(Provided(MetadataTable::new(database, kind))) as Arc<dyn TableProvider>)
                );
            }
            None => {}
        }
        if let Some(table) = self.users().remove(name) {
            return Ok(Some(table));
        }
        match self.event.table(name).await? {
            Some(table) => Ok(Some(table)),
            None if is_file(name) && !database.reads_only => self.files.try_new(name).await,
            None => Ok(None),
        }
    }

    fn register_table(&self, name: String, table: Arc<dyn TableProvider>) -> Result<Option<Arc<dyn TableProvider>>> {
        if Main::table_name(&name).is_some() {
            return plan_err!("`{name}` is a table of traces: give yours another name");
        }
        Ok(self.users.write().unwrap_or_else(PoisonError::into_inner).insert(name, table))
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        Ok(self.users.write().unwrap_or_else(PoisonError::into_inner).remove(name))
    }

    fn table_exist(&self, name: &str) -> bool {
        // A class of this name does not keep a user from making a table.
        Main::table_name(name).is_some() || self.users().contains_key(name)
    }
}

#[async_trait]
impl SchemaProvider for ClassTables {
    fn table_names(&self) -> Vec<String> {
        self.database.by_name.iter().map(|(name, _)| name.clone()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let table = self.database.class_table(name);
        let provider = |table| Arc::new(Provided(EventProvider { database: self.database.clone(), table }));
        Ok(table.map(|table| provider(table) as Arc<dyn TableProvider>))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.database.by_name.iter().any(|(own, _)| own == name)
    }
}

impl Database {
    /// The names of all tables: those that are always there, then those of event classes in their order.
    pub fn tables(&self) -> impl Iterator<Item = &str> {
        let own = own_names().chain(self.defined_names()).map(|name| -> &str { name });
        own.chain(self.by_name.iter().map(|(name, _)| name.as_str()))
    }

    /// The names of the tables that definitions of the user add.
    fn defined_names(&self) -> impl Iterator<Item = &'static str> {
        let is_there = self.has_defined_states();
        StateTableKind::DEFINED.into_iter().filter(move |_| is_there).map(StateTableKind::name)
    }
}
