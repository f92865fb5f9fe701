//! Options that formats add, as readers and as writers.

use clap::{Arg, ArgAction, ArgMatches, Args};
use tracemill::target_settings;
use tracemill_format::lost::Lost;
use tracemill_format::{Setting, Settings, settings_of};
use tracemill_formats::FORMATS;

/// Options that input formats add.
#[derive(Clone, Default)]
pub(crate) struct FormatSettings(pub(crate) Settings);

/// Options that output formats add.
#[derive(Clone, Default)]
pub(crate) struct TargetSettings(pub(crate) Settings);

/// Options that a list of formats declares.
trait Named: Default {
    const HEADING: &'static str;

    fn list() -> Vec<&'static Setting>;

    fn new(settings: Settings) -> Self;
}

impl Named for FormatSettings {
    const HEADING: &'static str = "Options of input formats";

    fn list() -> Vec<&'static Setting> {
        settings_of(FORMATS)
    }

    fn new(settings: Settings) -> Self {
        FormatSettings(settings)
    }
}

impl Named for TargetSettings {
    const HEADING: &'static str = "Options of output formats";

    fn list() -> Vec<&'static Setting> {
        target_settings()
    }

    fn new(settings: Settings) -> Self {
        TargetSettings(settings)
    }
}

fn typed<T: Named>(matches: &ArgMatches) -> T {
    let mut settings = Settings::default();
    for setting in T::list() {
        match setting.value {
            Some(_) => {
                let value = matches.get_one::<String>(setting.name);
                settings.0.extend(value.map(|value| (setting.name, value.clone())));
            }
            None if matches.get_flag(setting.name) => {
                settings.0.insert(setting.name, String::new());
            }
            None => {}
        }
    }
    T::new(settings)
}

fn augmented<T: Named>(command: clap::Command) -> clap::Command {
    T::list().into_iter().fold(command, |command, setting| {
        let arg = Arg::new(setting.name).long(setting.name).help(setting.help).help_heading(T::HEADING);
        command.arg(match setting.value {
            Some(value) => arg.value_name(value).action(ArgAction::Set).allow_hyphen_values(true),
            None => arg.action(ArgAction::SetTrue),
        })
    })
}

impl clap::FromArgMatches for FormatSettings {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(typed(matches))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = typed(matches);
        Ok(())
    }
}

impl Args for FormatSettings {
    fn augment_args(command: clap::Command) -> clap::Command {
        augmented::<Self>(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for TargetSettings {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(typed(matches))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = typed(matches);
        Ok(())
    }
}

impl Args for TargetSettings {
    fn augment_args(command: clap::Command) -> clap::Command {
        augmented::<Self>(command).after_long_help(losses_of_targets())
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

/// Help text with the limits of each output format.
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
