//! Output that appears under its final name only when it is complete.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use tracemill_model::error::{Error, ErrorKind, Result};

/// A file or folder that is being written under a name of its own, beside its final one. It is removed when it is
/// dropped before [`Pending::commit`], with the folders that were made around it.
///
/// A target that takes bytes and keeps none (standard output, a pipe, a device) has no name to give: the bytes wait in the
/// temporary folder and go there once they are complete.
#[derive(Debug)]
pub struct Pending {
    target: PathBuf,
    path: PathBuf,
    /// Files and folders that are removed when the output does not become complete.
    remains: Remains,
    /// The folder that was made, open: no other folder is the same one while it is.
    folder: Option<fs::File>,
    is_done: bool,
}

impl Pending {
    /// Output for `target`. Only the folders around it are made; what a killed process of the same number left is
    /// removed.
    ///
    /// # Errors
    /// When the target has no name (`/`, `..`), or a folder that it needs cannot be made.
    pub fn new(target: &Path) -> Result<Pending> {
        if is_flow(target) {
            let root = std::env::temp_dir().join(part_name(OsStr::new("tracemill")));
            remove(&root);
            remove_leftovers(&root, OsStr::new("tracemill"));
            private_folder(&root).map_err(|error| Error::io("make a temporary folder", &root, &error))?;
            let path = root.join("output");
            let remains = Remains { root, folders: Vec::new() };
            return Ok(Pending { target: target.to_path_buf(), path, remains, folder: None, is_done: false });
        }
        let Some(name) = target.file_name() else {
            return Err(Error::misuse(format!("`{}` is not a name for an output", target.display())));
        };
        let root = target.with_file_name(part_name(name));
        // Its name holds the number of this process, so what is there was left by one that was killed, long ago.
        remove(&root);
        put_back(&root, target)?;
        remove_leftovers(&root, name);
        let mut path = root.clone();
        if is_private(target) {
            // The replacement of a private file is private while it is written, too.
            private_folder(&root).map_err(|error| Error::io("make a temporary folder", &root, &error))?;
            path = root.join(name);
        }
        let remains = Remains { root, folders: missing_folders(target) };
        let pending = Pending { target: target.to_path_buf(), path, remains, folder: None, is_done: false };
        if let Some(around) = pending.remains.folders.last() {
            fs::create_dir_all(around).map_err(|error| Error::io("make the folder", around, &error))?;
        }
        Ok(pending)
    }

    /// Where to write.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Files and folders that an interrupt has to remove.
    pub fn remains(&self) -> &Remains {
        &self.remains
    }

    /// Names files of the output in errors as the user knows them: by the name that the output is to get.
    pub fn naming(&self) -> impl Fn(Error) -> Error + Clone + 'static {
        let (from, to) = (self.path.clone(), self.target.clone());
        // The bytes for a pipe or device wait elsewhere: an error there is not one of the target.
        let is_beside = !is_flow(&self.target);
        move |error| if is_beside { error.with_file_moved(&from, &to) } else { error }
    }

    /// Makes the folder that the output is. When somebody removes it after this, the output does not
    /// get its name, also when those who write made a folder of its name again for the rest.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn make_folder(&mut self) -> Result<()> {
        let failed = |error: std::io::Error| Error::io("make the folder", &self.target, &error);
        fs::create_dir_all(&self.path).map_err(failed)?;
        take_over_rights(&self.target, &self.path);
        if cfg!(unix) {
            self.folder = Some(fs::File::open(&self.path).map_err(failed)?);
        }
        Ok(())
    }

    /// Makes the folder that the output is, for this user alone.
    ///
    /// # Errors
    /// When it cannot be made, or is there already: in a folder of all users somebody else may have made it.
    pub fn make_private_folder(&self) -> Result<()> {
        private_folder(&self.path).map_err(|error| Error::io("make the folder", &self.path, &error))
    }

    /// Is the folder still the one that was made?
    fn is_mine(&self) -> bool {
        match &self.folder {
            None => true,
            Some(folder) => is_same(folder, &self.path).unwrap_or(false),
        }
    }

    /// Gives the output its final name, once its bytes are on the disk. What has the name is replaced: by an output with the
    /// same mode, and of the same owner where that is possible.
    ///
    /// # Errors
    /// When the disk does not take it; the target is then what it was.
    pub fn commit(mut self) -> Result<()> {
        if is_flow(&self.target) {
            return self.flush_pipe();
        }
        sync(&self.path).map_err(self.naming())?;
        if !self.is_mine() {
            return Err(Error::new(ErrorKind::Io, "the output was removed while it was written").in_file(&self.target));
        }
        let target = self.target.clone();
        let failed = |error: std::io::Error| Error::io("give the output its name", &target, &error);
        take_over_rights(&target, &self.path);
        let is_folder = fs::symlink_metadata(&target).is_ok_and(|of| of.is_dir());
        if is_folder && exchange(&self.path, &target).is_ok() {
            self.is_done = true;
            let old = &self.path;
            fs::remove_dir_all(old).map_err(|error| Error::io("remove the old output", old, &error))?;
        } else if is_folder {
            // Here folders are not replaced in one step: the old one steps aside first, and who is killed now leaves it for
            // the next one (`put_back`).
            let old = old_of(&self.path);
            fs::rename(&target, &old).map_err(failed)?;
            if let Err(error) = fs::rename(&self.path, &target) {
                let _ = fs::rename(&old, &target);
                return Err(failed(error));
            }
            self.is_done = true;
            fs::remove_dir_all(&old).map_err(|error| Error::io("remove the old output", &old, &error))?;
        } else {
            fs::rename(&self.path, &target).map_err(failed)?;
            self.is_done = true;
            if self.path != self.remains.root {
                let _ = fs::remove_dir(&self.remains.root);
            }
        }
        let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Some file systems cannot sync folders; the name is there all the same.
        let _ = fs::File::open(parent).and_then(|folder| folder.sync_all());
        Ok(())
    }

    /// Hands the bytes over to what keeps none. Who reads them may have enough before the end.
    fn flush_pipe(&self) -> Result<()> {
        let failed = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::BrokenPipe => Ok(()),
            _ => Err(Error::io("write the output", &self.target, &error)),
        };
        let poured = fs::File::open(&self.path).and_then(|mut from| {
            if self.target == Path::new("-") {
                let mut to = std::io::stdout().lock();
                std::io::copy(&mut from, &mut to)?;
                return std::io::Write::flush(&mut to);
            }
            let mut to = fs::OpenOptions::new().write(true).open(&self.target)?;
            std::io::copy(&mut from, &mut to).map(|_| ())
        });
        poured.or_else(failed)
    }
}

/// Remains of an output that does not become complete: it, and the folders that were made around it.
#[derive(Clone, Debug)]
pub struct Remains {
    /// The output, or the folder that was made for it.
    root: PathBuf,
    /// The folders around it, the outermost first.
    folders: Vec<PathBuf>,
}

impl Remains {
    /// Removes them; folders that hold something else stay.
    pub fn remove(&self) {
        remove(&self.root);
        for folder in self.folders.iter().rev() {
            let _ = fs::remove_dir(folder);
        }
    }

    /// Is the output gone?
    pub fn is_gone(&self) -> bool {
        self.root.symlink_metadata().is_err()
    }
}

/// The folders around a path that are not there, the outermost first.
fn missing_folders(path: &Path) -> Vec<PathBuf> {
    let around = path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    let missing = around.take_while(|folder| fs::symlink_metadata(folder).is_err());
    let mut folders: Vec<PathBuf> = missing.map(Path::to_path_buf).collect();
    folders.reverse();
    folders
}

/// Is what is open the same as what has a name now?
#[cfg(unix)]
fn is_same(open: &fs::File, path: &Path) -> std::io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let (own, named) = (open.metadata()?, fs::symlink_metadata(path)?);
    Ok((own.dev(), own.ino()) == (named.dev(), named.ino()))
}

/// Folders are not opened here.
#[cfg(not(unix))]
fn is_same(_: &fs::File, path: &Path) -> std::io::Result<bool> {
    Ok(path.is_dir())
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.is_done {
            self.remains.remove();
        }
    }
}

/// Does the path take bytes without keeping them: standard output (`-`), a pipe, a device? Descriptors of the process are
/// that too: what they lead to is not ours to replace.
pub fn is_flow(path: &Path) -> bool {
    let is_descriptor = ["/dev/stdout", "/dev/stderr"].iter().any(|known| path == Path::new(known))
        || ["/dev/fd", "/proc/self/fd"].iter().any(|known| path.starts_with(known));
    path == Path::new("-") || is_descriptor || fs::metadata(path).is_ok_and(|of| !of.is_file() && !of.is_dir())
}

/// The name under which what gets `name` is written.
fn part_name(name: &OsStr) -> OsString {
    let mut part = OsString::from(".");
    part.push(name);
    part.push(format!(".{}.part", std::process::id()));
    part
}

/// The name of an output that steps aside for the one that is written at `part`.
fn old_of(part: &Path) -> PathBuf {
    let mut old = part.to_path_buf().into_os_string();
    old.push(".old");
    PathBuf::from(old)
}

/// Puts back the output that a process of this kind had moved aside when it was killed. Nothing is written then: who asked
/// for a new output was not asked whether it replaces this one.
///
/// # Errors
/// When that happened.
fn put_back(part: &Path, target: &Path) -> Result<()> {
    if fs::symlink_metadata(target).is_ok() {
        return Ok(());
    }
    let (Some(folder), Some(name)) = (part.parent(), target.file_name()) else { return Ok(()) };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let left = entry.file_name();
        let Some(of) = left.as_encoded_bytes().strip_suffix(b".old") else { continue };
        let of = String::from_utf8_lossy(of).into_owned();
        let writer = writer_of(OsStr::new(&of)).filter(|(of, _)| *of == name.as_encoded_bytes());
        if writer.is_some_and(|(_, number)| !is_running(number)) && fs::rename(entry.path(), target).is_ok() {
            let message = "a run that replaced it was killed; what it was before has its name again";
            let error = Error::new(ErrorKind::Io, message).in_file(target);
            return Err(error.with_help("nothing was written; run the command again, with --force to replace it"));
        }
    }
    Ok(())
}

/// Is there a process of this number? Where the system does not tell, there may be.
fn is_running(number: u32) -> bool {
    let processes = Path::new("/proc");
    !processes.join("self").exists() || processes.join(number.to_string()).exists()
}

/// Is there a file that some may not read?
#[cfg(unix)]
fn is_private(target: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(target).is_ok_and(|of| of.is_file() && of.mode() & 0o044 != 0o044)
}

#[cfg(not(unix))]
fn is_private(_: &Path) -> bool {
    false
}

/// Gives what was written the owner and the mode of what it replaces, as far as that is possible: a mode is not given to a
/// group that the old file did not have.
#[cfg(unix)]
fn take_over_rights(old: &Path, new: &Path) {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    let (Ok(of_old), Ok(of_new)) = (fs::metadata(old), fs::symlink_metadata(new)) else { return };
    if of_old.is_dir() != of_new.is_dir() || of_new.is_symlink() {
        return;
    }
    let mut mode = of_old.mode() & 0o777;
    if (of_old.uid(), of_old.gid()) != (of_new.uid(), of_new.gid()) {
        let group = chown(new, None, Some(of_old.gid())).is_ok() || of_old.gid() == of_new.gid();
        let _ = chown(new, Some(of_old.uid()), None);
        if !group {
            mode &= !0o070;
        }
    }
    let _ = fs::set_permissions(new, fs::Permissions::from_mode(mode));
}

#[cfg(not(unix))]
fn take_over_rights(_: &Path, _: &Path) {}

/// Two folders change their names in one step, where the system can do that.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn exchange(a: &Path, b: &Path) -> std::io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).map_err(std::io::Error::from)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn exchange(_: &Path, _: &Path) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// A new folder that other users cannot look into.
fn private_folder(path: &Path) -> std::io::Result<()> {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has permissions to set"))]
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Is the path of the form under which [`Pending`] writes: what a process left that was killed?
pub fn is_pending(path: &Path) -> bool {
    path.file_name().is_some_and(|name| writer_of(name).is_some())
}

/// The name that a file is to get which [`Pending`] writes, and the number of the process that does.
fn writer_of(part: &OsStr) -> Option<(&[u8], u32)> {
    let name = part.as_encoded_bytes().strip_prefix(b".")?.strip_suffix(b".part")?;
    let dot = name.iter().rposition(|byte| *byte == b'.')?;
    let number = str::from_utf8(&name[dot + 1..]).ok().filter(|number| !number.starts_with('+'))?;
    Some((&name[..dot], number.parse().ok()?))
}

/// Removes what processes left beside `part` that were killed while they wrote the same name. Where the system does not
/// tell which processes there are, it stays.
fn remove_leftovers(part: &Path, name: &OsStr) {
    let folder = part.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let left = entry.file_name();
        let writer = writer_of(&left).filter(|(of, _)| *of == name.as_encoded_bytes());
        if writer.is_some_and(|(_, number)| !is_running(number)) {
            remove(&entry.path());
        }
    }
}

/// Removes what was written under a name of its own.
fn remove(path: &Path) {
    // The path does not exist when no output was written.
    let _ = match fs::symlink_metadata(path) {
        Ok(of) if of.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    };
}

fn sync(path: &Path) -> Result<()> {
    let failed = |error: std::io::Error| Error::io("write the output to disk", path, &error);
    let of = fs::symlink_metadata(path).map_err(failed)?;
    if of.is_dir() {
        for entry in fs::read_dir(path).map_err(failed)? {
            sync(&entry.map_err(failed)?.path())?;
        }
        let _ = fs::File::open(path).and_then(|folder| folder.sync_all());
        return Ok(());
    }
    fs::File::open(path).and_then(|file| file.sync_all()).map_err(failed)
}

/// Refuses an output (`what` it is, in a message) that is, contains or lies inside an input, through links too: writing it
/// would destroy what is read.
///
/// # Errors
/// Wrong usage when it is refused.
pub fn refuse_input(what: &str, output: &Path, inputs: &[PathBuf]) -> Result<()> {
    let bad = |would: &str, help: &str| {
        Err(Error::misuse(format!("the {what} would {would}")).in_file(output).with_help(help.to_string()))
    };
    if is_flow(output) {
        return Ok(());
    }
    let own = canonical(output);
    if inputs.iter().any(|input| canonical(input).starts_with(&own) || has_file(input, output)) {
        return bad("replace an input, or part of one", "give another name");
    }
    if inputs.iter().any(|input| own.starts_with(canonical(input))) {
        return bad("lie inside an input", "give a name outside of it");
    }
    Ok(())
}

/// Refuses an output that is a file which `option` names, or contains it, or is one of the files in a folder which it
/// names: writing it would destroy what is read. `-` is standard input, when that is a file.
///
/// # Errors
/// Wrong usage when it is refused.
pub fn refuse_side_input(what: &str, output: &Path, input: &Path, option: &str) -> Result<()> {
    let input = if input == Path::new("-") { Path::new("/dev/stdin") } else { input };
    if is_flow(output) || fs::metadata(input).is_ok_and(|of| !of.is_file() && !of.is_dir()) {
        return Ok(());
    }
    let inside = fs::read_dir(input).into_iter().flatten().flatten().any(|entry| are_one(&entry.path(), output));
    if !inside && !are_one(input, output) && !canonical(input).starts_with(canonical(output)) {
        return Ok(());
    }
    let what_is = if inside || input.is_dir() { "a file of the folder that" } else { "the file that" };
    let message = match option {
        "standard input" => format!("the {what} would replace the file that standard input is read from"),
        option => format!("the {what} would replace {what_is} {option} reads"),
    };
    Err(Error::misuse(message).in_file(output).with_help("give another name"))
}

/// Are both the same file or folder, by whatever names?
#[cfg(unix)]
pub fn are_one(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |path: &Path| fs::metadata(path).ok().map(|of| (of.dev(), of.ino()));
    identity(a).is_some_and(|own| identity(b) == Some(own))
}

/// Files have no identity here but their path.
#[cfg(not(unix))]
pub fn are_one(a: &Path, b: &Path) -> bool {
    canonical(a) == canonical(b)
}

/// Is the output one of the files of an input, by whatever name?
#[cfg(unix)]
fn has_file(input: &Path, output: &Path) -> bool {
    use std::collections::HashSet;
    use std::os::unix::fs::MetadataExt;
    let identity = |path: &Path| fs::metadata(path).map(|of| ((of.dev(), of.ino()), of.is_dir()));
    let Ok((own, false)) = identity(output) else { return false };
    let (mut seen, mut waiting) = (HashSet::new(), vec![input.to_path_buf()]);
    while let Some(path) = waiting.pop() {
        match identity(&path) {
            Ok((found, _)) if found == own => return true,
            // Links may lead round in circles.
            Ok((found, true)) if seen.insert(found) => {
                waiting.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
            }
            _ => {}
        }
    }
    false
}

/// Files have no identity here but their path.
#[cfg(not(unix))]
fn has_file(_: &Path, _: &Path) -> bool {
    false
}

/// Refuses an output that is, contains or lies inside an input ([`refuse_input`]), and one that exists, unless it `replaces` an output of its
/// kind, which `is_known` recognises.
///
/// # Errors
/// When it is refused.
pub fn refuse_output(
    output: &Path,
    inputs: &[PathBuf],
    is_folder: bool,
    replaces: bool,
    is_known: &dyn Fn(&Path) -> bool,
) -> Result<()> {
    let bad = |message: String, help: &str| {
        Err(Error::new(ErrorKind::Io, message).in_file(output).with_help(help.to_string()))
    };
    if is_flow(output) {
        let help = "name a folder with --output, or write a format that is one file";
        return if is_folder {
            bad("the output is a folder, which no pipe or device takes".into(), help)
        } else {
            Ok(())
        };
    }
    refuse_input("output", output, inputs)?;
    let Ok(of) = fs::symlink_metadata(output) else { return Ok(()) };
    if !replaces {
        return bad("the output exists already".into(), "give another name, or replace it with --force");
    }
    if of.is_dir() != is_folder {
        let (is, would) = if is_folder { ("file", "folder") } else { ("folder", "file") };
        return bad(format!("the output is a {is} and would be a {would}"), "remove it first");
    }
    let is_empty = || fs::read_dir(output).is_ok_and(|mut entries| entries.next().is_none());
    if of.is_dir() && !is_empty() && !is_known(output) {
        return bad("the output is a folder that holds no trace".into(), "it is not replaced; remove it first");
    }
    Ok(())
}

/// The path without links and dots; of a path that does not exist yet, the folder that it will be in is resolved.
pub fn canonical(path: &Path) -> PathBuf {
    if let Ok(known) = path.canonicalize() {
        return known;
    }
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => canonical(parent),
        Some(_) => Path::new(".").canonicalize().unwrap_or_default(),
        None => PathBuf::new(),
    };
    path.file_name().map_or(parent.clone(), |name| parent.join(name))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_was_removed_and_made_again_gets_no_name() {
        let around = std::env::temp_dir().join(format!("tracemill-output-{}", std::process::id()));
        let target = around.join("out");
        for is_removed in [true, false] {
            let mut pending = Pending::new(&target).expect("it has a name");
            pending.make_folder().expect("it can be made");
            let path = pending.path().to_path_buf();
            if is_removed {
                fs::remove_dir_all(&path).expect("it is there");
                fs::create_dir(&path).expect("it is not");
            }
            fs::write(path.join("file"), "content").expect("the folder is there");
            match pending.commit() {
                Ok(()) => assert!(!is_removed),
                Err(error) => assert!(is_removed && error.to_string().contains("removed"), "{error}"),
            }
            assert_eq!((target.join("file").exists(), path.exists()), (!is_removed, false));
        }
        fs::remove_dir_all(around).expect("it is there");
    }

    /// A new output has the mode of the old one, and other users cannot read it before it has its name, either.
    #[test]
    fn rights_of_what_is_replaced_stay() {
        use std::os::unix::fs::PermissionsExt;
        let around = std::env::temp_dir().join(format!("tracemill-rights-{}", std::process::id()));
        fs::create_dir_all(&around).expect("it can be made");
        let mode_of = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        for (name, mode) in [("secret", 0o600), ("group", 0o640), ("open", 0o664), ("run", 0o755)] {
            let target = around.join(name);
            fs::write(&target, "old").expect("the folder is there");
            fs::set_permissions(&target, fs::Permissions::from_mode(mode)).expect("it is ours");
            let pending = Pending::new(&target).expect("it has a name");
            fs::write(pending.path(), "new").expect("the folder is there");
            if mode & 0o004 == 0 {
                assert_eq!(mode_of(pending.path().parent().expect("it has one")), 0o700);
            }
            pending.commit().expect("it is whole");
            assert_eq!((mode_of(&target), fs::read_to_string(&target).expect("it is there")), (mode, "new".into()));
        }
        let target = around.join("folder");
        fs::create_dir(&target).and_then(|()| fs::write(target.join("old"), "old")).expect("it can be made");
        fs::set_permissions(&target, fs::Permissions::from_mode(0o700)).expect("it is ours");
        let mut pending = Pending::new(&target).expect("it has a name");
        pending.make_folder().expect("it can be made");
        assert_eq!(mode_of(pending.path()), 0o700);
        fs::write(pending.path().join("new"), "new").expect("the folder is there");
        pending.commit().expect("it is whole");
        assert_eq!((mode_of(&target), target.join("new").exists(), target.join("old").exists()), (0o700, true, false));
        assert_eq!(fs::read_dir(&around).expect("it is there").count(), 5, "nothing else stays");
        fs::remove_dir_all(around).expect("it is there");
    }

    /// Where folders cannot change their names in one step, a process that is killed between leaves the old one aside.
    #[test]
    fn an_output_that_was_moved_aside_comes_back() {
        let around = std::env::temp_dir().join(format!("tracemill-aside-{}", std::process::id()));
        let (target, aside) = (around.join("out"), around.join(".out.4194999.part.old"));
        fs::create_dir_all(&aside).and_then(|()| fs::write(aside.join("old"), "old")).expect("it can be made");
        let error = Pending::new(&target).map(|_| ()).expect_err("the old one comes back first");
        assert!(error.to_string().contains("was killed"), "{error}");
        assert!(target.join("old").exists() && !aside.exists());
        Pending::new(&target).map(|_| ()).expect("nothing is aside now");
        fs::remove_dir_all(around).expect("it is there");
    }
}
