//! The bracket around what a handler does for the program: inside, the context is the program's own; at
//! its end, the program continues in the cache. For a program that is not translated it changes nothing.

use tracee::frame::UContext;

use crate::state::thread::TracedThread;
use crate::translate::context::{self, SwitchResult};
use crate::translate::stepping;

/// A thread and its context, which is the program's own as long as this lives.
pub(crate) struct NativeContext<'a> {
    pub(crate) thread: &'a mut TracedThread,
    pub(crate) context: &'a mut UContext,
    /// The thread may wait at the end to be left.
    parks: bool,
}

impl<'a> NativeContext<'a> {
    /// Of a system call: nothing stands between that and the program.
    pub(crate) fn of_system_call(thread: &'a mut TracedThread, context: &'a mut UContext) -> Self {
        stepping::stop_steps(thread, context);
        context::enter(thread, context);
        Self { thread, context, parks: true }
    }

    /// Of a fault that is the program's own: its code can't go on.
    pub(crate) fn of_fault(thread: &'a mut TracedThread, context: &'a mut UContext) -> Self {
        stepping::stop_steps(thread, context);
        context::enter_at_fault(thread, context);
        Self { thread, context, parks: false }
    }

    /// Of a signal that came anywhere. `None`: the program's own state can't be found there, see [`stepping::step`].
    pub(crate) fn of_signal(thread: &'a mut TracedThread, context: &'a mut UContext) -> Option<Self> {
        match context::enter(thread, context) {
            SwitchResult::Native => Some(Self { thread, context, parks: false }),
            SwitchResult::Between => None,
        }
    }
}

impl Drop for NativeContext<'_> {
    fn drop(&mut self) {
        if self.parks {
            context::leave_or_park(self.thread, self.context);
        } else {
            context::leave(self.thread, self.context);
        }
    }
}
