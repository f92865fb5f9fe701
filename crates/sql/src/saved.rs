//! Queries that come with the program.

/// A query with a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Query {
    /// Its name.
    pub name: String,
    /// Its SQL.
    pub text: String,
}

impl Query {
    /// Its description: its first comment.
    pub fn comment(&self) -> &str {
        self.text.lines().find_map(|line| line.strip_prefix("--")).map_or("", str::trim)
    }
}

macro_rules! queries {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../queries/", $name, ".sql")))),*]
    };
}

const BUILT_IN: &[(&str, &str)] =
    queries!["top-events", "slow-calls", "latency", "gaps", "losses", "rates", "hot-threads"];

/// All of them.
pub fn built_in() -> Vec<Query> {
    BUILT_IN.iter().map(|(name, text)| Query { name: name.to_string(), text: text.to_string() }).collect()
}
