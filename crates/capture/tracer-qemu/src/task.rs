//! The task of the guest that executes on each vCPU: read from the kernel when it changes its current task.
//!
//! The kernel keeps a pointer to the running task for each processor. A store to it is a context switch; the
//! task's name and numbers are then read from memory. The creation of a task is noted when it first runs.

use std::collections::HashMap;

use buffers::{Task, TaskChange};

use crate::kernel::Kernel;
use crate::modules::Modules;
use crate::ram::Ram;

/// Functions of the kernel that we want to know of.
const HOOKS: &[(u64, &str)] = &[
    (HOOK_EXIT, "do_exit"),
    (HOOK_EXEC, "finalize_exec"),
    (HOOK_MODULE, "do_init_module"),
    (HOOK_NAME, "__set_task_comm"),
];
const HOOK_EXIT: u64 = 1;
const HOOK_EXEC: u64 = 2;
const HOOK_MODULE: u64 = 3;
const HOOK_NAME: u64 = 4;
/// Cycles until the kernel is searched for again, at first.
const RETRY_CYCLES: u64 = 50_000_000;
const MAX_TRIES: u32 = 4;
/// Cycles until it is asked again which task runs, while the kernel that was found starts up.
const START_CYCLES: u64 = 1_000_000;

/// The tasks of the guest.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    kernel: Option<Kernel>,
    /// Whether the kernel has come to its first process: before that its places for each processor are not the final ones.
    started: bool,
    tries: u32,
    next_try: u64,
    /// The pointer of the vCPU that executes; 0 while there is none.
    watched: u64,
    cpu: u32,
    /// Where each vCPU's pointer is.
    pointers: Vec<u64>,
    /// What each vCPU executes.
    current: Vec<Option<Task>>,
    /// Tasks seen, by the kernel's address of them.
    known: HashMap<u64, Task>,
    /// Those that nobody has taken yet.
    symbols: Vec<(String, u64)>,
    modules: Modules,
    /// Whether a task is being given another name.
    renaming: bool,
}

type Events = Vec<(TaskChange, Task)>;

impl Tasks {
    /// Whether the kernel was found.
    pub(crate) fn is_ready(&self) -> bool {
        self.started
    }

    /// Whether to search for the kernel now.
    pub(crate) fn may_try(&self, cycle: u64) -> bool {
        (self.kernel.is_some() || self.tries < MAX_TRIES) && cycle >= self.next_try
    }

    /// Searches, and looks whether a process runs on the vCPU. Returns what came of it, for the user.
    pub(crate) fn find_kernel(&mut self, ram: &Ram, cycle: u64, cpu: u32) -> String {
        if self.kernel.is_none() {
            self.tries += 1;
            self.next_try = cycle + (RETRY_CYCLES << self.tries);
            match Kernel::find(ram) {
                Ok(kernel) => self.kernel = Some(kernel),
                Err(why) => return why.to_owned(),
            }
        }
        self.next_try = cycle + START_CYCLES;
        if let Some(kernel) = &mut self.kernel {
            kernel.look_again(ram);
        }
        let Some(kernel) = &self.kernel else { return String::new() };
        let task = kernel.symbol("current_task").or_else(|| kernel.symbol("pcpu_hot"));
        let (Some(task), Some(table)) = (task, kernel.symbol("__per_cpu_offset")) else {
            self.next_try = u64::MAX;
            return "the kernel's symbols lack current_task".to_owned();
        };
        let offsets =
            (0..64).map_while(|cpu| kernel.read_u64(ram, table + 8 * cpu).filter(|&offset| offset != 0));
        self.pointers = offsets.map(|offset| offset.wrapping_add(task)).collect();
        let pointer = self.pointers.get(cpu as usize).copied();
        let present = pointer.and_then(|at| self.read(ram, kernel.read_u64(ram, at)?));
        if present.is_none_or(|task| task.process == 0) {
            return "the kernel was found, but no process of its".to_owned();
        }
        self.current = vec![None; self.pointers.len()];
        self.symbols = kernel.symbols().iter().map(|(name, &address)| (name.clone(), address)).collect();
        self.symbols.sort_by_key(|&(_, address)| address);
        self.started = true;
        "found".to_owned()
    }

    /// The symbols of the kernel, and of modules that came since, once.
    pub(crate) fn take_symbols(&mut self) -> Vec<(String, u64)> {
        std::mem::take(&mut self.symbols)
    }

    /// The number of the function that starts there, if it is one we want to know of.
    pub(crate) fn hook(&self, ip: u64) -> u64 {
        let Some(kernel) = &self.kernel else { return 0 };
        HOOKS.iter().find(|(_, name)| kernel.symbol(name) == Some(ip)).map_or(0, |&(hook, _)| hook)
    }

    /// Another vCPU executes.
    pub(crate) fn go_to(&mut self, cpu: u32) {
        self.cpu = cpu;
        self.watched = self.pointers.get(cpu as usize).copied().unwrap_or(0);
    }

    /// Whether a store there changes the current task.
    #[inline]
    pub(crate) fn is_watched(&self, addr: u64) -> bool {
        addr == self.watched && addr != 0
    }

    /// Whether a process of that name executes.
    pub(crate) fn runs(&self, name: &str) -> bool {
        let task = self.current.get(self.cpu as usize).copied().flatten();
        task.is_some_and(|task| {
            let len = task.name.iter().position(|&byte| byte == 0).unwrap_or(task.name.len());
            // The kernel keeps 15 characters.
            task.name[..len] == name.as_bytes()[..name.len().min(15)]
        })
    }

    fn read(&self, ram: &Ram, address: u64) -> Option<Task> {
        let kernel = self.kernel.as_ref()?;
        let field = |field| address.wrapping_add(kernel.field("task_struct", field));
        let thread = kernel.read_u32(ram, field("pid"))?;
        let process = kernel.read_u32(ram, field("tgid"))?;
        let mut name = [0; 16];
        if !ram.read(kernel.physical(field("comm"))?, &mut name) {
            return None;
        }
        if let Some(end) = name.iter().position(|&byte| byte == 0) {
            name[end..].fill(0);
        }
        let parent = kernel.read_u64(ram, field("real_parent"))?;
        let parent =
            kernel.read_u32(ram, parent.wrapping_add(kernel.field("task_struct", "tgid"))).unwrap_or(0);
        Some(Task { address, process, thread, parent, name })
    }

    /// What a vCPU executes now, when the kernel has just been found.
    pub(crate) fn first(&mut self, cpu: u32, ram: &Ram) -> Events {
        let pointer = self.pointers.get(cpu as usize).copied();
        let task = pointer.and_then(|at| self.kernel.as_ref()?.read_u64(ram, at));
        task.map_or_else(Vec::new, |task| self.run(task, cpu, ram))
    }

    /// The pointer at that physical address was written.
    pub(crate) fn switched(&mut self, physical: u64, cpu: u32, ram: &Ram) -> Events {
        let Some(address) = ram.load(physical, 8) else { return Vec::new() };
        self.run(address as u64, cpu, ram)
    }

    fn run(&mut self, address: u64, cpu: u32, ram: &Ram) -> Events {
        let Some(task) = self.read(ram, address) else { return Vec::new() };
        let mut events = Vec::new();
        let former = self.known.insert(address, task);
        if former.is_none_or(|former| former.thread != task.thread) {
            events.push((TaskChange::Create, task));
        } else if former.is_some_and(|former| former.name != task.name) {
            events.push((TaskChange::Exec, task));
        }
        events.push((TaskChange::Switch, task));
        if let Some(place) = self.current.get_mut(cpu as usize) {
            *place = Some(task);
        }
        events
    }

    /// Whether a task was given another name since [`Self::renamed`] looked.
    #[inline]
    pub(crate) fn is_renaming(&self) -> bool {
        self.renaming
    }

    /// The kernel has gone back to a program, which may have given itself another name.
    pub(crate) fn renamed(&mut self, ram: &Ram) -> Events {
        self.renaming = false;
        let Some(task) = self.current.get(self.cpu as usize).copied().flatten() else { return Vec::new() };
        let events = self.run(task.address, self.cpu, ram);
        // If not, it goes on as it did.
        if events.len() > 1 { events } else { Vec::new() }
    }

    /// A function that we want to know of was entered.
    pub(crate) fn reached(&mut self, hook: u64, ram: &Ram) -> Events {
        if hook == HOOK_NAME {
            self.renaming = true;
            return Vec::new();
        }
        if hook == HOOK_MODULE {
            // It is in the list, with its symbols, and is about to be called first.
            if let Some(kernel) = &self.kernel {
                self.symbols.extend(self.modules.learn(kernel, ram));
            }
            return Vec::new();
        }
        let cpu = self.cpu as usize;
        let Some(task) = self.current.get(cpu).copied().flatten() else { return Vec::new() };
        match hook {
            HOOK_EXIT => {
                self.known.remove(&task.address);
                vec![(TaskChange::Exit, task)]
            }
            HOOK_EXEC => {
                let Some(task) = self.read(ram, task.address) else { return Vec::new() };
                self.known.insert(task.address, task);
                self.current[cpu] = Some(task);
                vec![(TaskChange::Exec, task)]
            }
            _ => Vec::new(),
        }
    }
}
