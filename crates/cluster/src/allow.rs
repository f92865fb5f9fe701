//! The limits of what an executor may open.

use std::path::{Path, PathBuf};

use tracemill_model::error::Error;

/// The folders below which an executor opens files; anything where nothing was said.
#[derive(Clone, Debug, Default)]
pub struct Allow(Option<Vec<PathBuf>>);

impl Allow {
    /// These folders; without one, anything.
    ///
    /// # Errors
    /// When a folder is not there.
    pub fn new(folders: &[PathBuf]) -> Result<Allow, Error> {
        let real = |folder: &PathBuf| {
            std::fs::canonicalize(folder).map_err(|error| Error::io("find the folder of --allow", folder, &error))
        };
        let all = folders.iter().map(real).collect::<Result<Vec<_>, _>>()?;
        Ok(Allow((!all.is_empty()).then_some(all)))
    }

    /// Is a file or a folder below one of them, also when a link leads there?
    ///
    /// # Errors
    /// When it is not, or cannot be found.
    pub fn check(&self, path: &Path) -> Result<(), Error> {
        let Some(folders) = &self.0 else { return Ok(()) };
        let real = std::fs::canonicalize(path).map_err(|error| Error::io("open the path", path, &error))?;
        if folders.iter().any(|folder| real.starts_with(folder)) {
            return Ok(());
        }
        Err(Error::unsupported("the path is outside of what --allow lets this executor open").in_file(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_is_opened() {
        let base = std::env::temp_dir().join(format!("tracemill-allow-{}", std::process::id()));
        let (inside, outside) = (base.join("in"), base.join("out"));
        for folder in [&inside, &outside] {
            std::fs::create_dir_all(folder).expect("a folder");
            std::fs::write(folder.join("file"), "").expect("a file");
        }
        let allow = Allow::new(std::slice::from_ref(&inside)).expect("it is there");
        assert!(allow.check(&inside.join("file")).is_ok());
        assert!(allow.check(&outside.join("file")).is_err());
        assert!(allow.check(&inside.join("../out/file")).is_err());
        assert!(Allow::new(&[]).expect("nothing to find").check(&outside).is_ok());
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(&outside, inside.join("link")).expect("a link");
            assert!(allow.check(&inside.join("link/file")).is_err());
        }
        std::fs::remove_dir_all(&base).expect("it goes");
    }
}
