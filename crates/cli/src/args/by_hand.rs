//! Options that say themselves how they are made and read, for their order or their number.

/// Makes options of a type: `add_to` adds them to a command, `read` reads what was typed.
macro_rules! by_hand {
    ($type:ty) => {
        impl clap::Args for $type {
            fn augment_args(command: clap::Command) -> clap::Command {
                Self::add_to(command)
            }

            fn augment_args_for_update(command: clap::Command) -> clap::Command {
                Self::add_to(command)
            }
        }

        impl clap::FromArgMatches for $type {
            fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
                Self::read(matches)
            }

            fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
                *self = Self::read(matches)?;
                Ok(())
            }
        }
    };
}
