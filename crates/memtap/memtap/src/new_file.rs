//! A file or directory that exists completely or not at all. It is written under a temporary name in the same
//! place, and renamed at the end. An error leaves nothing behind, and neither does a signal that ends memtap.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result, bail};
use clap::builder::{OsStringValueParser, TypedValueParser};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::output::Out;

/// The name of a file that is to be made, as an argument. One with control characters is refused: memtap says the name, and the terminal
/// would obey it.
pub(crate) fn name() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(|name| {
        if name.to_string_lossy().contains(char::is_control) {
            return Err("it has control characters; name a file without them");
        }
        Ok(PathBuf::from(name))
    })
}

/// What is removed where a signal ends memtap.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct NewFile {
    path: PathBuf,
    /// Where it is meanwhile; `None` for what is no file: a pipe, a device.
    temporary: Option<PathBuf>,
    out: BufWriter<File>,
}

impl NewFile {
    /// Begins. Fails where the file exists, unless it is to be replaced.
    pub(crate) fn create(path: &Path, force: bool) -> Result<Self> {
        let shown = || format!("{}: can't be written", path.display());
        let (temporary, file) = match path.metadata() {
            Ok(found) if found.is_dir() => bail!("{}: is a directory; name a file", path.display()),
            Ok(found) if found.is_file() && !force => {
                bail!("{}: already exists; --force replaces it", path.display())
            }
            Ok(found) if !found.is_file() => {
                (None, File::options().write(true).open(path).with_context(shown)?)
            }
            _ => {
                let temporary = beside(path);
                watch_signals();
                unfinished(|all| all.push(temporary.clone()));
                let created = File::create_new(&temporary).with_context(shown);
                if created.is_err() {
                    unfinished(|all| all.retain(|path| *path != temporary));
                }
                (Some(temporary), created?)
            }
        };
        Ok(Self { path: path.to_owned(), temporary, out: BufWriter::with_capacity(1 << 16, file) })
    }

    /// All is written: the file gets its name.
    pub(crate) fn finish(mut self) -> Result<()> {
        let shown = || format!("{}: can't be written", self.path.display());
        self.out.flush().with_context(shown)?;
        if let Some(temporary) = self.temporary.take() {
            let renamed = fs::rename(&temporary, &self.path).with_context(shown);
            if renamed.is_err() {
                let _ = fs::remove_file(&temporary);
            }
            unfinished(|all| all.retain(|path| *path != temporary));
            renamed?;
        }
        Ok(())
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes).map_err(|error| self.named(&error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush().map_err(|error| self.named(&error))
    }
}

impl NewFile {
    /// An error that says which file it is about.
    fn named(&self, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: can't be written: {error}", self.path.display()))
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            let _ = fs::remove_file(&temporary);
            unfinished(|all| all.retain(|path| *path != temporary));
        }
    }
}

/// A directory that is being filled.
#[derive(Debug)]
pub(crate) struct NewDirectory {
    path: PathBuf,
    /// Where it is meanwhile.
    temporary: PathBuf,
}

impl NewDirectory {
    /// Begins. Fails where something of that name exists; of what a directory holds nothing is ever replaced.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        if path.symlink_metadata().is_ok() {
            bail!("{}: already exists; name a directory that does not", path.display());
        }
        let temporary = beside(path);
        watch_signals();
        unfinished(|all| all.push(temporary.clone()));
        let new = Self { path: path.to_owned(), temporary };
        fs::create_dir(&new.temporary).with_context(|| format!("{}: can't be written", path.display()))?;
        Ok(new)
    }

    /// Where its files are written.
    pub(crate) fn filled(&self) -> &Path {
        &self.temporary
    }

    /// All files are written: the directory gets its name.
    pub(crate) fn finish(self) -> Result<()> {
        fs::rename(&self.temporary, &self.path)
            .with_context(|| format!("{}: can't be written", self.path.display()))
    }
}

impl Drop for NewDirectory {
    fn drop(&mut self) {
        // It is not there any more if it got its name.
        let _ = fs::remove_dir_all(&self.temporary);
        unfinished(|all| all.retain(|path| *path != self.temporary));
    }
}

/// Where a result goes: a file that is there whole or not at all, or standard output.
pub(crate) enum Output {
    File(NewFile),
    Stdout(Out),
}

impl Output {
    /// Begins to write; `-` is standard output.
    pub(crate) fn create(path: &Path, force: bool) -> Result<Self> {
        if path.as_os_str() == "-" {
            return Ok(Self::Stdout(Out::stdout()));
        }
        NewFile::create(path, force).map(Self::File)
    }

    /// All is written.
    pub(crate) fn finish(self) -> Result<()> {
        match self {
            Self::File(file) => file.finish(),
            Self::Stdout(out) => out.finish(),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Stdout(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.flush(),
            Self::Stdout(out) => out.flush(),
        }
    }
}

/// A name in the same directory that nobody else has.
fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.part", std::process::id()))
}

fn unfinished(change: impl FnOnce(&mut Vec<PathBuf>)) {
    change(&mut UNFINISHED.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
}

/// Removes what is not finished where a signal ends memtap, which then ends as the signal would have ended it.
fn watch_signals() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let Ok(mut signals) = Signals::new([SIGHUP, SIGINT, SIGTERM]) else { return };
        std::thread::spawn(move || {
            for signal in &mut signals {
                unfinished(|all| {
                    for path in all.drain(..) {
                        let _ = fs::remove_file(&path);
                        let _ = fs::remove_dir_all(&path);
                    }
                });
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).expect("it is a directory");
        entries.map(|entry| entry.expect("read").file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_file_is_there_whole_or_not_at_all() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("out");
        let mut file = NewFile::create(&path, false).expect("new");
        file.write_all(b"half").expect("written");
        assert!(!path.exists());
        drop(file);
        assert!(names(dir.path()).is_empty(), "{:?}", names(dir.path()));
        let mut file = NewFile::create(&path, false).expect("new");
        file.write_all(b"whole").expect("written");
        file.finish().expect("finished");
        assert_eq!(names(dir.path()), ["out"]);
        let refused = NewFile::create(&path, false).expect_err("it exists").to_string();
        assert!(refused.contains("already exists") && refused.contains("--force"), "{refused}");
        NewFile::create(&path, true).expect("forced").finish().expect("finished");
        assert_eq!(fs::read(&path).expect("read"), b"");
        assert!(NewFile::create(dir.path(), true).is_err());
        assert!(NewFile::create(&dir.path().join("no/out"), true).is_err());
    }

    #[test]
    fn a_directory_is_there_whole_or_not_at_all() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("out");
        for is_finished in [false, true] {
            let new = NewDirectory::create(&path).expect("new");
            fs::write(new.filled().join("a"), b"whole").expect("written");
            assert!(!path.exists());
            if is_finished {
                new.finish().expect("finished");
            }
        }
        assert_eq!((names(dir.path()), names(&path)), (vec!["out".to_owned()], vec!["a".to_owned()]));
        assert!(NewDirectory::create(&path).expect_err("it exists").to_string().contains("already exists"));
        assert_eq!(names(&path), ["a"]);
    }
}
