//! `tracemill sql` and `tracemill query`.

#[cfg(feature = "sql")]
pub(crate) use asked::{Output, read, report_findings, run};

#[cfg(not(feature = "sql"))]
use tracemill_model::error::Error;

#[cfg(not(feature = "sql"))]
use crate::args::SqlOptions;
#[cfg(not(feature = "sql"))]
use crate::report::Outcome;

/// Says how to get a program that can do this.
#[cfg(not(feature = "sql"))]
pub(crate) fn run(_: &SqlOptions) -> Result<Outcome, Error> {
    Err(super::built_without("SQL", "sql"))
}

#[cfg(feature = "sql")]
mod asked {
    use std::io::{BufWriter, IsTerminal, Read, Write};
    use std::path::Path;
    use std::sync::Arc;

    use tracemill_analyses::kernel::CustomDefinitions;
    use tracemill_codec::text::out::Out;
    use tracemill_engine::option_values::default_query_memory;
    use tracemill_engine::request::OpenedTraces;
    use tracemill_format::Demangle;
    use tracemill_model::error::Error;
    use tracemill_sql::database::Database;
    use tracemill_sql::output::{Form, TableFormat, Writer};
    use tracemill_sql::query::{Failure, MemoryLimits, Queries, Spilled};
    use tracemill_sql::saved;
    use tracemill_table::Layout;

    use super::super::live::KeptInput;
    use super::super::request::RequestOptions;
    use super::super::samples::Symbols;
    use super::super::{custom_states, no_events, shell};
    use crate::args::{SqlFormat, SqlOptions, SqlText};
    use crate::report::{Outcome, OutputSink, Reporter};
    use crate::{interrupt, progress};

    /// Asks the traces.
    pub(crate) fn run(options: &SqlOptions) -> Result<Outcome, Error> {
        let mut texts = Vec::new();
        for text in &options.texts {
            texts.push(match text {
                SqlText::Command(text) => text.clone(),
                SqlText::File(path) => read(path)?,
            });
        }
        let folder = || {
            let base = std::env::var_os("XDG_CONFIG_HOME").filter(|path| !path.is_empty()).map(Into::into);
            let base = base.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".config")));
            base.map(|base: std::path::PathBuf| base.join("tracemill/sql"))
        };
        if let Some(name) = &options.run {
            let folders: Vec<_> = options.library.clone().into_iter().chain(folder()).collect();
            let saved = saved_queries(&folders, options.library.as_deref())?;
            if name == "list" {
                let (layout, mut list) = (Layout::list(&[14]), Out::default());
                for query in &saved {
                    layout.put_cells(&mut list, &[&*query.name, query.comment()]);
                    list.put_byte(b'\n');
                }
                return OutputSink::stdout().print(list.written(), Outcome::Done);
            }
            let Some(query) = saved.iter().find(|query| query.name == *name) else {
                let names: Vec<String> = saved.iter().map(|query| format!("`{}`", query.name)).collect();
                let error = Error::misuse(format!("there is no saved query `{name}`"));
                return Err(error.with_help(format!("there are {}", names.join(", "))));
            };
            texts.push(query.text.clone());
        }
        let is_shell = texts.is_empty() && std::io::stdin().is_terminal();
        if texts.is_empty() && !is_shell {
            texts.push(read(Path::new("-"))?);
        }
        let form = form(options)?;
        // Times without a zone are universal time.
        let Some(kept) = KeptInput::so_far(&options.input)? else { return Ok(Outcome::Nothing) };
        let request = RequestOptions::events(&kept.input, &options.events, true);
        let Some((opened, mut reporter)) = request.open()? else { return Ok(Outcome::Nothing) };
        no_events::explain_if_certain(&opened, &reporter);
        let OpenedTraces { session, streams, selection, filter, query } = opened;
        let shown = (!is_shell).then(|| progress::show(&options.input, &session.progress, options.output.is_none()));
        let symbols = Symbols::new(&options.symbols, Demangle::default(), &session).into_symbolizer();
        let mut database = Database::from_streams(session.into(), streams, selection, filter, query.jobs);
        symbols.into_iter().for_each(|symbols| database.name_functions_by(symbols));
        if let Some(file) = &options.states {
            let definitions = CustomDefinitions::open(file)?;
            // Times without a zone are universal time, as in the statements.
            custom_states::bind(&definitions, database.session(), true, &reporter)?;
            database.define_states(Arc::new(definitions), true)?;
        }
        let limits = MemoryLimits {
            memory_bytes: options.input.memory.unwrap_or_else(default_query_memory),
            spills: options.spill.is_none(),
        };
        let mut queries = Queries::new(database, limits)?;
        // After the queries, some of whose threads may still be at work.
        let cleaned = Cleaned(queries.spilled());
        queries.stop = interrupt::stop();
        for parameter in &options.parameters {
            let Some((name, value)) = parameter.split_once('=') else {
                let error = Error::misuse(format!("`{parameter}` is not NAME=VALUE, in -p"));
                return Err(error.with_help("for example -p low=5"));
            };
            queries.set_parameter(name.trim_start_matches('$'), value);
        }
        #[cfg(not(feature = "distributed"))]
        if options.cluster.is_some() {
            return Err(super::super::cluster::missing());
        }
        #[cfg(feature = "distributed")]
        if let Some(address) = &options.cluster {
            super::super::cluster::connect(address, options, &mut queries)?;
        }
        if is_shell {
            return shell::run(options, queries, reporter, form);
        }
        let mut output = Output::open(form, options.rows.0, options.output.as_deref(), &options.input.traces)?;
        let mut failure = None;
        for text in &texts {
            let asked = output.run_sql(&mut queries, text);
            if let Err(Failure::Stopped) = asked {
                interrupt::end_if_stopped((queries, cleaned));
                return Ok(Outcome::Nothing);
            }
            report_findings(&queries, &mut reporter);
            if let Err(error) = asked {
                failure = Some(error);
                break;
            }
            if output.is_closed() {
                return Ok(Outcome::Done);
            }
        }
        drop(shown);
        if let Some(failure) = failure {
            output.sink.flush()?;
            return Err(match failure {
                Failure::Wrong(error) | Failure::Failed(error) => error,
                Failure::Stopped => Error::unsupported("the query was stopped"),
            });
        }
        let is_closed = output.end()?;
        for lost in queries.database().losses() {
            reporter.warning(&lost);
        }
        Ok(if is_closed { Outcome::Done } else { reporter.outcome() })
    }

    /// Removes what was written for want of memory.
    struct Cleaned(Spilled);

    impl Drop for Cleaned {
        fn drop(&mut self) {
            for folder in self.0.folders() {
                // A thread of a query that was left may still write: its folder is not empty then.
                for _ in 0..50 {
                    let is_left = std::fs::remove_dir_all(&folder).is_err() && folder.exists();
                    if !is_left {
                        break;
                    }
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            }
        }
    }

    /// Where answers go, and in which form.
    pub(crate) struct Output {
        writer: Writer<BufWriter<Pipe>>,
        sink: OutputSink,
        end: Pipe,
    }

    impl Output {
        /// An output on stdout or into a file; a table shows this many rows at most.
        pub(crate) fn open(
            form: Form,
            rows: Option<usize>,
            path: Option<&Path>,
            inputs: &[std::path::PathBuf],
        ) -> Result<Output, Error> {
            let sink = OutputSink::open(path, inputs)?;
            let (pipe, end) = channel();
            Ok(Output { writer: Writer::new(form, BufWriter::with_capacity(1 << 16, pipe), rows), sink, end })
        }

        /// Runs a text.
        pub(crate) fn run_sql(&mut self, queries: &mut Queries, text: &str) -> Result<(), Failure> {
            queries.run(text, &mut PassOn { writer: &mut self.writer, sink: &mut self.sink, end: &self.end })
        }

        /// Has the reader gone?
        pub(crate) fn is_closed(&self) -> bool {
            self.writer.is_closed() || self.sink.is_closed
        }

        /// Completes the output. True when the reader has gone.
        pub(crate) fn end(self) -> Result<bool, Error> {
            let Output { writer, mut sink, end } = self;
            writer.finish()?;
            sink.write(&end.take())?;
            sink.end()?;
            Ok(sink.is_closed)
        }
    }

    /// Tells what reading met.
    pub(crate) fn report_findings(queries: &Queries, reporter: &mut Reporter) {
        let (faults, warnings) = queries.database().collector.take();
        faults.iter().for_each(|fault| {
            reporter.fault(fault);
        });
        warnings.iter().for_each(|warning| reporter.warning(warning));
    }

    pub(crate) fn read(path: &Path) -> Result<String, Error> {
        if path == Path::new("-") {
            let mut text = String::new();
            let read = std::io::stdin().read_to_string(&mut text);
            return read.map(|_| text).map_err(|error| Error::io("read the SQL", path, &error));
        }
        std::fs::read_to_string(path).map_err(|error| Error::io("read the SQL", path, &error))
    }

    /// The saved queries that can be run: the first of a name counts.
    fn saved_queries(folders: &[std::path::PathBuf], named: Option<&Path>) -> Result<Vec<saved::Query>, Error> {
        let mut all: Vec<saved::Query> = Vec::new();
        for folder in folders {
            let entries = match std::fs::read_dir(folder) {
                Ok(entries) => entries,
                Err(error) if named == Some(folder) => return Err(Error::io("list the folder", folder, &error)),
                Err(_) => continue,
            };
            let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
            paths.sort();
            for path in paths.iter().filter(|path| path.extension().is_some_and(|end| end == "sql")) {
                let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                if !all.iter().any(|known| known.name == name) {
                    all.push(saved::Query { name, text: read(path)? });
                }
            }
        }
        for query in saved::built_in() {
            if !all.iter().any(|known| known.name == query.name) {
                all.push(query);
            }
        }
        Ok(all)
    }

    fn form(options: &SqlOptions) -> Result<Form, Error> {
        let is_file = options.output.as_deref().is_some_and(|path| path != Path::new("-"));
        let is_terminal = !is_file && std::io::stdout().is_terminal();
        let typed = options.format.map(|format| match format {
            SqlFormat::Table => Form::Text(TableFormat::Text),
            SqlFormat::Csv => Form::Text(TableFormat::Csv),
            SqlFormat::Jsonl => Form::Text(TableFormat::JsonLines),
            SqlFormat::Json => Form::Text(TableFormat::Json),
            SqlFormat::Markdown => Form::Text(TableFormat::Markdown),
            SqlFormat::Arrow => Form::Arrow { seekable: is_file },
            SqlFormat::Parquet => Form::Parquet,
        });
        let by_ending = || Form::from_file_name(&options.output.as_deref()?.to_string_lossy());
        let form = typed.or_else(by_ending).unwrap_or(Form::Text(if is_terminal {
            TableFormat::Text
        } else {
            TableFormat::Csv
        }));
        if is_terminal && matches!(form, Form::Arrow { .. } | Form::Parquet) {
            let error = Error::misuse("this form is not text, and stdout is a terminal");
            return Err(error.with_help("write it to a file with -o, or send it to a program"));
        }
        Ok(form)
    }

    /// A buffer between the writer of answers and the output, which holds interrupts back while it writes.
    #[derive(Clone, Default)]
    pub(crate) struct Pipe(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

    fn channel() -> (Pipe, Pipe) {
        let pipe = Pipe::default();
        (pipe.clone(), pipe)
    }

    impl Pipe {
        fn take(&self) -> Vec<u8> {
            std::mem::take(&mut *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
        }
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Gives what the writer made to the output.
    struct PassOn<'a, W: Write + Send + 'static> {
        writer: &'a mut Writer<W>,
        sink: &'a mut OutputSink,
        end: &'a Pipe,
    }

    impl<W: Write + Send + 'static> PassOn<'_, W> {
        fn pass_on(&mut self) -> Result<(), Error> {
            let bytes = self.end.take();
            if !bytes.is_empty() {
                self.sink.write(&bytes)?;
                self.sink.flush()?;
            }
            Ok(())
        }
    }

    impl<W: Write + Send + 'static> tracemill_sql::query::Answers for PassOn<'_, W> {
        fn begin(&mut self, schema: &tracemill_sql::query::SchemaRef) -> Result<(), Error> {
            self.writer.begin(schema)?;
            self.pass_on()
        }

        fn rows(&mut self, batch: &tracemill_sql::query::RecordBatch) -> Result<std::ops::ControlFlow<()>, Error> {
            let flow = self.writer.rows(batch)?;
            self.pass_on()?;
            Ok(if self.sink.is_closed { std::ops::ControlFlow::Break(()) } else { flow })
        }

        fn end(&mut self) -> Result<(), Error> {
            self.writer.end()?;
            self.pass_on()
        }
    }
}
