//! The messages of a recording in words for people, and its errors in terms of the command
//! line. The signals that end it are handled here, too, since they go to this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use recorder::{Error, Feature, Notice};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;

use crate::progress::Progress;

/// How long others outlive the program before it is said.
const PATIENCE: Duration = Duration::from_secs(1);
/// Signals that end a recording.
const ENDING: [i32; 4] = [SIGINT, SIGQUIT, SIGTERM, SIGHUP];

/// How long a program that is to end may stay stopped.
const CONTINUE_EVERY: Duration = Duration::from_millis(20);

/// Tells what happens.
pub(crate) struct Teller {
    progress: Progress,
    /// What ends the recording of a process, in words.
    how_to_end: Option<&'static str>,
    /// Whether it is still to be said that the program has ended while others go on, and since when it is so.
    says_outliving: bool,
    outliving_since: Option<Instant>,
    /// Whether the program may be stopped when it is to end.
    stops: bool,
    end: Arc<ForcedEnd>,
    problem: Result<()>,
}

impl Teller {
    /// Nothing told yet.
    pub(crate) fn new(how_to_end: Option<&'static str>) -> Self {
        let (progress, problem) = (Progress::new(), Ok(()));
        let end = Arc::default();
        Self {
            progress,
            how_to_end,
            says_outliving: false,
            outliving_since: None,
            stops: false,
            end,
            problem,
        }
    }

    /// Nothing told yet, of a program that is stopped now and then.
    pub(crate) fn of_stopped_program() -> Self {
        Self { stops: true, ..Self::new(None) }
    }

    /// Set where the recording is to end at once.
    pub(crate) fn leave_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.end.leave)
    }

    /// Says, too, where processes outlive the program and are waited for.
    pub(crate) fn tell_outliving(&mut self) {
        self.says_outliving = true;
    }

    fn outlived(&mut self, processes: usize) {
        self.end.program_is_over.store(true, Ordering::Relaxed);
        let since = *self.outliving_since.get_or_insert_with(Instant::now);
        if self.says_outliving && since.elapsed() >= PATIENCE {
            self.says_outliving = false;
            self.progress.clear();
            let who = if processes == 1 {
                "a process goes on that it started"
            } else {
                "processes go on that it started"
            };
            say!("memtap: the program has ended, but {who}, recorded (--wait 0 would end with the program)");
        }
    }

    /// Tells.
    pub(crate) fn tell(&mut self, notice: &Notice<'_>) {
        if let Notice::Progress { totals, output } = notice {
            return self.progress.show(*totals, output);
        }
        if let Notice::Outlived { processes } = notice {
            return self.outlived(*processes);
        }
        self.progress.clear();
        match notice {
            Notice::Started { pid } => {
                self.problem = forward_signals(*pid, self.stops, Arc::clone(&self.end))
            }
            Notice::Attached { pid } => {
                say!("memtap: recording process {pid}{}", self.how_to_end.unwrap_or_default());
            }
            Notice::Ended { pid } => say!("memtap: process {pid} ended"),
            Notice::Warning(warning) => say!("memtap: {warning}"),
            _ => {}
        }
    }

    /// The recording has ended so; what went wrong here is an error, too.
    pub(crate) fn end<T>(mut self, result: Result<T>) -> Result<T> {
        self.progress.clear();
        let value = result?;
        self.problem.map(|()| value)
    }
}

/// What ends a recording that its program does not end.
#[derive(Debug, Default)]
struct ForcedEnd {
    leave: Arc<AtomicBool>,
    /// The program has ended; others go on.
    program_is_over: AtomicBool,
}

/// Signals that end a recording are passed on to the program, which decides; the trace is finished either way. Those that
/// the terminal sends (Ctrl-C) reach the program by themselves. One that `stops` would not see them before somebody continues it.
///
/// The second one ends the recording whatever the program does. Of those that the terminal sends only the ones after the program's end
/// count: an interpreter takes many.
fn forward_signals(pid: u32, stops: bool, end: Arc<ForcedEnd>) -> Result<()> {
    let mut signals = SignalsInfo::<WithOrigin>::new(ENDING).context("signals can't be handled")?;
    std::thread::spawn(move || {
        let mut count = 0;
        for origin in &mut signals {
            if origin.process.is_some() || end.program_is_over.load(Ordering::Relaxed) {
                count += 1;
            }
            if count > 1 {
                end.leave.store(true, Ordering::Relaxed);
            }
            let signal = rustix::process::Signal::from_named_raw(origin.signal);
            let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
            if let (Some(_), Some(signal), Some(pid)) = (origin.process, signal, pid) {
                let _ = rustix::process::kill_process(pid, signal);
            }
            if let Some(pid) = pid.filter(|_| stops) {
                std::thread::spawn(move || keep_going(pid));
            }
        }
    });
    Ok(())
}

/// From now on the program does not stay stopped: on its way to its end there may be more hits.
fn keep_going(pid: rustix::process::Pid) {
    while rustix::process::kill_process(pid, rustix::process::Signal::CONT).is_ok() {
        std::thread::sleep(CONTINUE_EVERY);
    }
}

/// A flag that these signals set.
pub(crate) fn flag_of_signals() -> Result<Arc<AtomicBool>> {
    let flag = Arc::default();
    for signal in ENDING {
        signal_hook::flag::register(signal, Arc::clone(&flag)).context("signals can't be handled")?;
    }
    Ok(flag)
}

/// From now on the signals that end a recording end this process, as they would without one.
pub(crate) fn let_signals_end() -> Result<()> {
    let always = Arc::new(AtomicBool::new(true));
    for signal in ENDING {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&always))
            .context("signals can't be handled")?;
    }
    Ok(())
}

/// An error of the library, where the command line's options say it better.
pub(crate) fn in_options(error: Error) -> anyhow::Error {
    let words = match &error {
        Error::NeedsTranslation(feature) => match feature {
            Feature::Data => {
                "--data: page protection does not record values; use --tracer translate".to_owned()
            }
            Feature::Flow => {
                "--flow: page protection sees accesses, not the code between them; use --tracer translate"
                    .to_owned()
            }
            Feature::Stack => {
                "--regions stack: page protection leaves the stack alone; use --tracer translate".to_owned()
            }
            Feature::Verify => {
                "--verify compares translated code with single-stepping; use --tracer translate".to_owned()
            }
            Feature::Attach => {
                "--pid: page protection must be there from a program's first instruction on; use --tracer translate"
                    .to_owned()
            }
            _ => return error.into(),
        },
        Error::Static(program) => format!(
            "{}: is statically linked, so no tracer can be preloaded; record it with --tracer translate",
            program.display()
        ),
        Error::ThreadLocal(expression) => {
            format!("{expression}: is a thread-local variable, which --tracer translate watches")
        }
        Error::TooManyFunctions => {
            format!("--start and --stop: at most {} functions together", buffers::MAX_BREAKPOINTS)
        }
        Error::Connect(_) => {
            let Error::Connect(source) = error else { unreachable!("just seen") };
            return anyhow::Error::new(source).context("--server");
        }
        _ => return error.into(),
    };
    anyhow::Error::msg(words)
}
