//! Options that formats add, as readers and as writers.

use clap::{Arg, ArgAction, ArgMatches};
use tracemill::target_settings;
use tracemill_format::lost::Lost;
use tracemill_format::{Setting, Settings, settings_of};
use tracemill_formats::FORMATS;

/// Options that formats declare, as they were typed: those of writers, or those of readers.
#[derive(Clone, Default)]
pub(crate) struct DeclaredSettings<const OF_TARGETS: bool>(pub(crate) Settings);

/// Options that input formats add.
pub(crate) type FormatSettings = DeclaredSettings<false>;

/// Options that output formats add.
pub(crate) type TargetSettings = DeclaredSettings<true>;

impl<const OF_TARGETS: bool> DeclaredSettings<OF_TARGETS> {
    fn list() -> Vec<&'static Setting> {
        if OF_TARGETS { target_settings() } else { settings_of(FORMATS) }
    }

    fn add_to(command: clap::Command) -> clap::Command {
        let heading = if OF_TARGETS { "Options of output formats" } else { "Options of input formats" };
        let command = Self::list().into_iter().fold(command, |command, setting| {
            let arg = Arg::new(setting.name)
                .long(setting.name)
                .help(setting.help)
                .help_heading(heading)
                .hide_short_help(true);
            command.arg(match setting.value {
                Some(value) => arg.value_name(value).action(ArgAction::Set).allow_hyphen_values(true),
                None => arg.action(ArgAction::SetTrue),
            })
        });
        if OF_TARGETS { command.after_help(ABOUT_LIMITS).after_long_help(losses_of_targets()) } else { command }
    }

    fn read(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut settings = Settings::default();
        for setting in Self::list() {
            let value = match setting.value {
                Some(_) => matches.get_one::<String>(setting.name).cloned(),
                None => matches.get_flag(setting.name).then(String::new),
            };
            settings.0.extend(value.map(|value| (setting.name, value)));
        }
        Ok(DeclaredSettings(settings))
    }
}

by_hand!(FormatSettings);
by_hand!(TargetSettings);

/// Where the limits of output formats are listed, for the help of `convert`.
const ABOUT_LIMITS: &str = "`tracemill convert --help limits` lists what each output format cannot hold.";

/// Limits of each output format: a page of the help, and the end of the manual page.
fn losses_of_targets() -> String {
    let mut text = String::from(
        "Limits of the output formats (convert counts and reports what it cannot write; --strict refuses it):\n",
    );
    for target in tracemill::targets() {
        let name = target.names.first().copied().unwrap_or_default();
        let lacks: Vec<String> = target.cannot_hold.iter().map(Lost::to_string).collect();
        text += &format!("  {name}: {}\n", lacks.join("; "));
    }
    text
}
