//! A thread that waits for the end of the program, or of its recording.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use buffers::FIRST_ANNOUNCEMENT;
use buffers_host::OwnedPool;

use crate::buffer_service::BufferService;
use crate::plan::{Plan, RunningProcess};
use crate::run::running::{self, Failure};
use crate::target::program::{self, Linkage};
use crate::{Error, Notice, ProgramEnd, library};

/// Somebody who waits for the program.
pub(crate) struct Waiter {
    is_over: Arc<AtomicBool>,
    /// Nothing is recorded: set before `is_over`.
    is_vain: Arc<AtomicBool>,
    thread: JoinHandle<Result<ProgramEnd, Failure>>,
    notices: Receiver<Notice<'static>>,
}

impl Waiter {
    /// Starts the program with the tracer in it.
    pub(crate) fn start(
        plan: &Plan,
        service: &BufferService,
        tell: &mut dyn FnMut(Notice<'_>),
    ) -> Result<Self, Error> {
        let mut command = command(plan, service.socket_name())?;
        let child = command.spawn().map_err(Error::file(&plan.program, "can't be started"))?;
        tell(Notice::Started { pid: child.id() });
        Ok(Self::for_child(child, service.pool()))
    }

    /// Has a process recorded that runs already, until the flag is set or its time is over.
    pub(crate) fn attend(plan: &Plan, running: &RunningProcess, service: &BufferService) -> Self {
        let (library, running) = (plan.library.clone(), running.clone());
        let (pool, socket) = (Arc::clone(service.pool()), service.socket_name().to_owned());
        Self::spawn(service.pool(), move |notices| {
            running::run(&running, &library, &socket, &pool, |notice| {
                // Whoever records is the one who listens: as long as this runs.
                let _ = notices.send(notice);
                pool.wake();
            })
            .map(|()| ProgramEnd::NotWaited)
        })
    }

    fn for_child(mut child: Child, pool: &Arc<OwnedPool>) -> Self {
        Self::spawn(pool, move |_| child.wait().map(ProgramEnd::from).map_err(Failure::Lost))
    }

    fn spawn(
        pool: &Arc<OwnedPool>,
        wait: impl FnOnce(&Sender<Notice<'static>>) -> Result<ProgramEnd, Failure> + Send + 'static,
    ) -> Self {
        let (is_over, is_vain) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (sender, notices) = channel();
        let (over, vain, pool) = (Arc::clone(&is_over), Arc::clone(&is_vain), Arc::clone(pool));
        let thread = std::thread::spawn(move || {
            let result = wait(&sender);
            vain.store(matches!(result, Err(Failure::NotEntered(_))), Ordering::Release);
            over.store(true, Ordering::Release);
            pool.wake();
            result
        });
        Self { is_over, is_vain, thread, notices }
    }

    /// Whether the program, or its recording, has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Whether a process that was to be attached to was left as it was. It may have a slot in the pool, and lives on.
    pub(crate) fn is_vain(&self) -> bool {
        self.is_vain.load(Ordering::Acquire)
    }

    /// Passes on what has happened since the last call.
    pub(crate) fn pass_on(&self, tell: &mut dyn FnMut(Notice<'_>)) {
        for notice in self.notices.try_iter() {
            tell(notice);
        }
    }

    /// Waits until it has.
    pub(crate) fn wait(self, tell: &mut dyn FnMut(Notice<'_>)) -> Result<ProgramEnd, Failure> {
        while let Ok(notice) = self.notices.recv() {
            tell(notice);
        }
        let gone = |_| Failure::Lost(io::Error::other("the thread that waits for it panicked"));
        self.thread.join().map_err(gone)?
    }
}

/// The command that runs the program with the tracer in it.
fn command(plan: &Plan, socket: &str) -> Result<Command, Error> {
    let mut preload = OsString::new();
    if let Some(sanitizer) = program::sanitizer(&plan.program) {
        preload.push(sanitizer);
        preload.push(":");
    }
    preload.push(&plan.library);
    if let Some(more) = std::env::var_os("LD_PRELOAD").filter(|more| !more.is_empty()) {
        preload.push(":");
        preload.push(more);
    }
    let mut command = match plan.linkage {
        Linkage::Dynamic => Command::new(&plan.program),
        Linkage::Static => {
            // This program has a loader: the tracer in it puts the static one in its place (crate tracer, `image`).
            let mut command = Command::new(library::own_program()?);
            command.env("MEMTAP_STATIC", Path::new(&plan.program));
            command
        }
    };
    // With the number under which the program is announced.
    let channel = format!("{socket}:{FIRST_ANNOUNCEMENT}");
    command.arg0(&plan.name).args(&plan.args).env("LD_PRELOAD", preload).env("MEMTAP_CHANNEL", channel);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    fn waiter_of(program: &str, prepare: impl FnOnce(&mut Child)) -> Result<ProgramEnd, Failure> {
        let mut child = Command::new(program).stdin(Stdio::null()).spawn().expect("it is in every system");
        prepare(&mut child);
        let pool = Arc::new(OwnedPool::create().expect("memory"));
        Waiter::for_child(child, &pool).wait(&mut |_| {})
    }

    #[test]
    fn a_program_that_ended_has_its_status() {
        assert!(matches!(waiter_of("true", |_| {}), Ok(ProgramEnd::Exited(0))));
        assert!(matches!(waiter_of("false", |_| {}), Ok(ProgramEnd::Exited(1))));
        let killed = waiter_of("cat", |child| {
            child.kill().expect("it is a child of ours");
        });
        assert!(matches!(killed, Ok(ProgramEnd::Killed(9) | ProgramEnd::Exited(0))), "{killed:?}");
    }

    #[test]
    fn a_program_that_can_not_be_waited_for_has_no_status_0() {
        // Somebody else has waited for it.
        let lost = waiter_of("true", |child| {
            let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
            rustix::process::waitpid(pid, rustix::process::WaitOptions::empty()).expect("it is a child");
        });
        assert!(matches!(lost, Err(Failure::Lost(_))), "{lost:?}");
    }

    #[test]
    fn a_waiter_that_panics_is_no_status_0() {
        let pool = Arc::new(OwnedPool::create().expect("memory"));
        let lost = Waiter::spawn(&pool, |_| panic!("as the test wants it")).wait(&mut |_| {});
        // Where panics abort, as in the tracers' profile, nobody sees this.
        assert!(matches!(lost, Err(Failure::Lost(_))), "{lost:?}");
    }
}
