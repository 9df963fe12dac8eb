//! The call graph of the guest's kernel, inferred from calls and returns on its stacks, without knowledge of its code.
//!
//! A call stores its return address, eight bytes, and the next access is made by another function. A return loads
//! the return address, and the next access is no longer made by this function. A function with neither call nor
//! return was jumped to: it becomes a child of the function that jumped, and returns with it. A function that
//! accesses nothing before it jumps is not seen, and the function it jumps to takes its place. Functions that the
//! processor enters by itself store nothing visible, and are recognised by name, as are the places where the
//! kernel switches to another task's stack. Linux aligns its stacks to their size, which tells them apart.
//!
//! Each program of the guest has one node, as wide as all that it did. What ran before the kernel has a few nodes.

use std::collections::HashMap;
use std::sync::Arc;

use memref::{Access, AccessKind};
use trace_format::Trace;

use super::names::{GuestNames, Named};
use super::process::{GuestMode, OwnedBy, walk_owned};
use super::programs::ProgramPlaces;
use crate::{Count, Error};

/// Bytes of a stack of the kernel, to which it is aligned.
const STACK_BYTES: u64 = 16 << 10;
/// The first call on a stack comes within so many bytes of its end, behind saved registers.
const FIRST_BYTES: u64 = 512;
/// Bytes of a return address.
const RETURN_BYTES: u32 = 8;
/// More nodes than these are counted to their callers.
const MAX_NODES: usize = 1 << 20;
/// With more stacks than tasks can be, those that wait are forgotten: these are no stacks.
const MAX_STACKS: usize = 1 << 17;
/// What a process does itself.
const USER_MODE: &str = "[user mode]";

/// What a node of the tree stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestCode {
    /// The whole machine, or a process.
    Owner,
    /// A function of the kernel.
    Kernel,
    /// A program, or a function of it.
    User,
    /// What ran before the kernel.
    Boot,
}

/// A function below its callers.
#[derive(Clone, Debug)]
pub struct GuestCall {
    /// Its caller's place in the tree; the first node's is its own. A node comes after its caller.
    pub caller: u32,
    /// Its name.
    pub name: Arc<str>,
    /// What it is.
    pub code: GuestCode,
    /// How often it was called.
    pub calls: u64,
    /// Accesses that it made itself.
    pub count: Count,
    /// Instructions that it executed itself: each belongs to the access after it.
    pub instructions: u64,
}

/// Who called whom. The first node is the whole machine, those below it are its processes.
#[derive(Clone, Debug)]
pub struct GuestCallTree {
    /// The nodes.
    pub nodes: Vec<GuestCall>,
}

impl GuestCallTree {
    /// Counts all of a machine's trace.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn of(trace: &Trace, programs: &ProgramPlaces<'_>) -> Result<Self, Error> {
        let names = GuestNames::new(trace, Named::Function, programs)?;
        let mut calls = GuestCalls::new(names, trace.threads().len());
        walk_owned(trace, |by, access| {
            calls.access(by, access);
        })?;
        Ok(calls.tree.tree)
    }

    /// What each node did, and what it called.
    pub fn totals(&self) -> Vec<GuestTotal> {
        let own = |node: &GuestCall| GuestTotal { count: node.count, instructions: node.instructions };
        let mut totals: Vec<GuestTotal> = self.nodes.iter().map(own).collect();
        for place in (1..totals.len()).rev() {
            let total = totals[place];
            totals[self.nodes[place].caller as usize] += total;
        }
        totals
    }
}

/// What a node did with all that it called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuestTotal {
    /// Accesses.
    pub count: Count,
    /// Instructions.
    pub instructions: u64,
}

impl std::ops::AddAssign for GuestTotal {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.instructions += other.instructions;
    }
}

/// A tree that grows.
struct GrowingTree {
    tree: GuestCallTree,
    /// The functions of nodes, by number.
    functions: Vec<u32>,
    places: HashMap<ChildKey, u32>,
}

/// A node by its caller's place and its function's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ChildKey {
    caller: u32,
    function: u32,
}

impl GrowingTree {
    fn new() -> Self {
        let all = GuestCall {
            caller: 0,
            name: "all".into(),
            code: GuestCode::Owner,
            calls: 0,
            count: Count::default(),
            instructions: 0,
        };
        Self { tree: GuestCallTree { nodes: vec![all] }, functions: vec![u32::MAX], places: HashMap::new() }
    }

    fn child(&mut self, caller: u32, function: u32, name: &Arc<str>, code: GuestCode) -> u32 {
        let nodes = &mut self.tree.nodes;
        let key = ChildKey { caller, function };
        if let Some(place) = self.places.get(&key) {
            return *place;
        }
        if nodes.len() >= MAX_NODES {
            return caller;
        }
        let name = Arc::clone(name);
        nodes.push(GuestCall { caller, name, code, calls: 0, count: Count::default(), instructions: 0 });
        let place = nodes.len() as u32 - 1;
        self.places.insert(key, place);
        self.functions.push(function);
        place
    }

    /// A function that was jumped to from a node; it, or one between it and the function that was called first, may be that function
    /// itself.
    fn jump(&mut self, first: u32, from: u32, function: u32, name: &Arc<str>) -> u32 {
        let mut node = from;
        while self.functions[node as usize] != function {
            if node == first || node == 0 {
                return self.child(from, function, name, GuestCode::Kernel);
            }
            node = self.tree.nodes[node as usize].caller;
        }
        node
    }
}

/// What is special about a function of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Special {
    Nothing,
    /// It jumps, calls or returns for others.
    Thunk,
    /// The processor enters it.
    Entry,
    /// What an entry jumps to at its end, where the processor goes back.
    Exit,
    /// It goes on on another stack.
    Switch,
    /// A new task begins in it.
    Begin,
}

/// Beginnings of the names of Linux's code that goes back to what was interrupted.
const EXITS: [&str; 9] = [
    "error_return",
    "common_interrupt_return",
    "restore_regs_and_return_to_kernel",
    "swapgs_restore_regs_and_return_to_usermode",
    "native_iret",
    "native_irq_return",
    "paranoid_exit",
    "nmi_restore",
    "retint_",
];

impl Special {
    fn of(name: &str) -> Self {
        if name.starts_with("__x86_") && name.contains("_thunk") {
            Self::Thunk
        } else if name.starts_with("asm_") || name.starts_with("entry_") {
            Self::Entry
        } else if EXITS.iter().any(|exit| name.starts_with(exit)) {
            Self::Exit
        } else if name.starts_with("__switch_to") {
            Self::Switch
        } else if name.starts_with("ret_from_fork") {
            Self::Begin
        } else {
            Self::Nothing
        }
    }
}

struct KnownFunction {
    name: Arc<str>,
    special: Special,
}

/// A function that was called and has not returned.
#[derive(Clone, Copy, Debug)]
struct Frame {
    /// Where its return address lies; of one that nobody called above all of its stack.
    sp: u64,
    function: u32,
    /// Its node, and that of the function that was called: the same, unless that one jumped.
    node: u32,
    first: u32,
    /// Of one that the processor entered: what was announced then.
    interrupted: Option<Announced>,
    /// The stack that its caller is on, if it is another one.
    back: Option<u64>,
}

/// What the access before has announced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Announced {
    #[default]
    Nothing,
    /// A call by that function.
    Call { sp: u64, caller: u32 },
    /// A return from that function.
    Return { sp: u64, from: u32 },
}

#[derive(Default)]
struct Processor {
    /// The stack that it is on: its address by [`STACK_BYTES`]; and who was called on it, outermost first.
    stack: u64,
    /// Whether the stack is known: the first call tells it.
    is_placed: bool,
    frames: Vec<Frame>,
    announced: Announced,
    /// Not in the kernel now.
    outside: bool,
    /// Who executes, and its node.
    owner: Option<usize>,
    owner_node: u32,
}

struct GuestCalls<'a> {
    names: GuestNames<'a>,
    tree: GrowingTree,
    functions: Vec<KnownFunction>,
    function_of: HashMap<Arc<str>, u32>,
    /// Functions by the numbers of [`GuestNames`].
    by_name: Vec<Option<u32>>,
    processors: Vec<Processor>,
    /// Those that no processor is on.
    stacks: HashMap<u64, Vec<Frame>>,
    last_cycle: u64,
}

fn stack_of(addr: u64) -> u64 {
    addr / STACK_BYTES
}

impl<'a> GuestCalls<'a> {
    fn new(names: GuestNames<'a>, cpu_count: usize) -> Self {
        Self {
            names,
            tree: GrowingTree::new(),
            functions: Vec::new(),
            function_of: HashMap::new(),
            by_name: Vec::new(),
            processors: (0..cpu_count).map(|_| Processor::default()).collect(),
            stacks: HashMap::new(),
            last_cycle: 0,
        }
    }

    /// Counts an access; gives the node that it belongs to.
    fn access(&mut self, by: OwnedBy<'_>, access: &Access) -> u32 {
        let mut processor = std::mem::take(&mut self.processors[by.cpu]);
        let node = self.node(&mut processor, by, access);
        self.processors[by.cpu] = processor;
        let counted = &mut self.tree.tree.nodes[node as usize];
        counted.count.add(access);
        counted.instructions += access.cycle.saturating_sub(self.last_cycle);
        self.last_cycle = access.cycle.max(self.last_cycle);
        node
    }

    /// The number of a function of that name.
    fn function(&mut self, name: &str) -> u32 {
        if let Some(number) = self.function_of.get(name) {
            return *number;
        }
        let number = self.functions.len() as u32;
        let name: Arc<str> = name.into();
        self.functions.push(KnownFunction { name: Arc::clone(&name), special: Special::of(&name) });
        self.function_of.insert(name, number);
        number
    }

    /// The function that makes an access.
    #[inline]
    fn function_at(&mut self, by: OwnedBy<'_>, access: &Access) -> u32 {
        let number = self.names.near(by, access.ip);
        if let Some(Some(function)) = self.by_name.get(number) {
            return *function;
        }
        // What a compiler moved out of a function is part of it.
        let name = self.names.name(number).1;
        let name = name.strip_suffix(".cold").unwrap_or(name).to_owned();
        let function = self.function(&name);
        if self.by_name.len() <= number {
            self.by_name.resize(number + 1, None);
        }
        self.by_name[number] = Some(function);
        function
    }

    fn child(&mut self, caller: u32, function: u32, code: GuestCode) -> u32 {
        let name = &self.functions[function as usize].name;
        self.tree.child(caller, function, name, code)
    }

    /// The node that an access belongs to.
    fn node(&mut self, processor: &mut Processor, by: OwnedBy<'_>, access: &Access) -> u32 {
        if processor.owner != Some(by.number) {
            let name = self.function(&by.owner.name);
            processor.owner = Some(by.number);
            processor.owner_node = self.child(0, name, GuestCode::Owner);
        }
        let function = self.function_at(by, access);
        match by.mode {
            GuestMode::Kernel => self.in_kernel(processor, function, access),
            GuestMode::Boot => {
                processor.outside = true;
                self.child(0, function, GuestCode::Boot)
            }
            GuestMode::User => {
                processor.outside = true;
                let is_named = !self.functions[function as usize].name.starts_with('[');
                let function = if is_named { function } else { self.function(USER_MODE) };
                self.child(processor.owner_node, function, GuestCode::User)
            }
        }
    }

    fn in_kernel(&mut self, processor: &mut Processor, function: u32, access: &Access) -> u32 {
        if std::mem::take(&mut processor.outside) {
            processor.frames.clear();
            (processor.is_placed, processor.announced) = (false, Announced::Nothing);
        }
        let special = self.special(function);
        let addr = access.addr.0;
        if special != Special::Thunk {
            self.settle(processor, function, special, addr);
        }
        let Some(top) = processor.frames.last().copied() else { return processor.owner_node };
        if access.size == RETURN_BYTES {
            match access.kind {
                AccessKind::Store if special != Special::Thunk => {
                    processor.announced = Announced::Call { sp: addr, caller: top.function };
                }
                AccessKind::Load => {
                    let is_frame = |frames: &[Frame]| frames.iter().rev().any(|frame| frame.sp == addr);
                    let returns = if processor.is_placed && stack_of(addr) == processor.stack {
                        is_frame(&processor.frames)
                    } else {
                        special == Special::Switch
                            && self.stacks.get(&stack_of(addr)).is_some_and(|frames| is_frame(frames))
                    };
                    if returns {
                        processor.announced = Announced::Return { sp: addr, from: top.function };
                    } else if special != Special::Thunk {
                        processor.announced = Announced::Nothing;
                    }
                }
                _ => {}
            }
        } else if special != Special::Thunk {
            processor.announced = Announced::Nothing;
        }
        top.node
    }

    /// Has the innermost function be the one that makes an access.
    fn settle(&mut self, processor: &mut Processor, function: u32, special: Special, addr: u64) {
        let mut announced = std::mem::take(&mut processor.announced);
        let has_switched =
            processor.frames.last().is_none_or(|top| self.special(top.function) == Special::Switch);
        if special == Special::Begin && has_switched {
            self.go_to(processor, stack_of(addr));
            processor.frames.clear();
        }
        if let Some(top) = processor.frames.last().copied() {
            let was_inside = self.is_of_interrupt(top.function);
            let goes_back = match announced {
                Announced::Return { sp, .. } => processor
                    .frames
                    .iter()
                    .rfind(|frame| frame.sp > sp)
                    .is_some_and(|frame| frame.function == function),
                _ => false,
            };
            if special == Special::Entry && !was_inside && !goes_back {
                let node = self.child(top.node, function, GuestCode::Kernel);
                let is_here = processor.is_placed && stack_of(addr) == processor.stack;
                let sp = if is_here { addr.min(top.sp) } else { top.sp };
                let interrupted = Some(announced);
                processor.frames.push(Frame { sp, function, node, first: node, interrupted, back: None });
                return;
            }
            if was_inside
                && !self.is_of_interrupt(function)
                && announced == Announced::Nothing
                && let Some(interrupted) = top.interrupted
            {
                processor.frames.pop();
                announced = interrupted;
            }
        }
        match announced {
            Announced::Call { sp, caller } if caller != function && self.may_call(processor, sp) => {
                self.call(processor, function, sp);
            }
            Announced::Return { sp, from } if from != function => self.leave(processor, sp),
            _ => {}
        }
        let [.., top] = processor.frames.as_slice() else {
            let node = self.child(processor.owner_node, function, GuestCode::Kernel);
            let (sp, interrupted, back) = (u64::MAX, None, None);
            processor.frames.push(Frame { sp, function, node, first: node, interrupted, back });
            return;
        };
        let top = *top;
        if top.function == function {
            return;
        }
        let before = processor.frames.iter().rev().nth(1);
        if before.is_some_and(|before| before.function == function) {
            // It goes on, whatever has become of the return.
            processor.frames.pop();
            return;
        }
        let name = &self.functions[function as usize].name;
        let node = self.tree.jump(top.first, top.node, function, name);
        if let Some(top) = processor.frames.last_mut() {
            (top.function, top.node) = (function, node);
        }
    }

    fn special(&self, function: u32) -> Special {
        self.functions[function as usize].special
    }

    /// Whether a function is an interrupt's own, where it begins or ends.
    fn is_of_interrupt(&self, function: u32) -> bool {
        matches!(self.special(function), Special::Entry | Special::Exit)
    }

    /// Whether what was stored there can be a return address: below those of the callers, or the first one on another stack.
    fn may_call(&self, processor: &Processor, sp: u64) -> bool {
        if !processor.is_placed {
            return true;
        }
        if stack_of(sp) == processor.stack {
            return processor.frames.last().is_none_or(|top| sp < top.sp);
        }
        STACK_BYTES - sp % STACK_BYTES <= FIRST_BYTES || self.stacks.contains_key(&stack_of(sp))
    }

    /// The processor goes on on another stack.
    fn go_to(&mut self, processor: &mut Processor, stack: u64) {
        if !processor.is_placed {
            self.stacks.remove(&stack);
            (processor.stack, processor.is_placed) = (stack, true);
        } else if stack != processor.stack {
            let next = self.stacks.remove(&stack).unwrap_or_default();
            let former = std::mem::replace(&mut processor.frames, next);
            if self.stacks.len() >= MAX_STACKS {
                self.stacks.clear();
            }
            self.stacks.insert(processor.stack, former);
            processor.stack = stack;
        }
    }

    /// A call whose return address lies at `sp`.
    fn call(&mut self, processor: &mut Processor, function: u32, sp: u64) {
        let caller = processor.frames.last().copied();
        let former = processor.is_placed.then_some(processor.stack);
        self.go_to(processor, stack_of(sp));
        while processor.frames.pop_if(|frame| frame.sp <= sp).is_some() {}
        // The first on a stack of its own, as that of interrupts, was called from another one.
        let back = former.filter(|former| processor.frames.is_empty() && *former != processor.stack);
        let caller = if back.is_some() { caller } else { processor.frames.last().copied() };
        let caller = caller.map_or(processor.owner_node, |frame| frame.node);
        let node = self.child(caller, function, GuestCode::Kernel);
        self.tree.tree.nodes[node as usize].calls += 1;
        processor.frames.push(Frame { sp, function, node, first: node, interrupted: None, back });
    }

    /// A return to the address at `sp`.
    fn leave(&mut self, processor: &mut Processor, sp: u64) {
        self.go_to(processor, stack_of(sp));
        while let Some(frame) = processor.frames.pop_if(|frame| frame.sp <= sp) {
            if let Some(back) = frame.back {
                self.go_to(processor, back);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use memref::VirtAddr;
    use proptest::prelude::*;

    use super::super::process::{ImageId, Owner};
    use super::super::symbols::GuestSymbols;
    use super::*;

    const TEXT: u64 = 0xffff_ffff_8100_0000;
    const STACKS: u64 = 0xffff_c900_0010_0000;
    const HEAP: u64 = 0xffff_8880_0012_3000;
    /// Functions that call each other; then an interrupt's entry and its handler, what changes stacks, a thunk, and where tasks begin.
    const NAMES: [&str; 10] = [
        "a",
        "b",
        "c",
        "d",
        "e",
        "asm_interrupt",
        "handler",
        "__switch_to_asm",
        "__x86_return_thunk",
        "ret_from_fork_asm",
    ];
    const ENTRY: usize = 5;
    const HANDLER: usize = 6;
    const SWITCH: usize = 7;
    const THUNK: usize = 8;
    const BEGIN: usize = 9;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Call(usize),
        Return {
            by_thunk: bool,
        },
        Access {
            offset: u64,
            size: u32,
            kind: AccessKind,
            is_local: bool,
        },
        Interrupt,
        /// A call, or a return, right after which the processor is interrupted.
        InterruptedCall(usize),
        InterruptedReturn,
    }

    fn step() -> impl Strategy<Value = Step> {
        let kind = prop_oneof![Just(AccessKind::Load), Just(AccessKind::Store)];
        prop_oneof![
            3 => (0usize..5).prop_map(Step::Call),
            3 => any::<bool>().prop_map(|by_thunk| Step::Return { by_thunk }),
            3 => (0u64..8, prop_oneof![Just(4u32), Just(8)], kind, any::<bool>())
                .prop_map(|(offset, size, kind, is_local)| Step::Access { offset, size, kind, is_local }),
            1 => Just(Step::Interrupt),
            1 => (0usize..5).prop_map(Step::InterruptedCall),
            1 => Just(Step::InterruptedReturn),
        ]
    }

    /// A task of the guest: the functions that it is in, and its stack pointer.
    struct Task {
        functions: Vec<usize>,
        sp: u64,
    }

    /// A machine with a processor and three tasks that says itself who called whom.
    struct Machine {
        calls: GuestCalls<'static>,
        tasks: Vec<Task>,
        current: usize,
        cycle: u64,
    }

    impl Machine {
        fn new() -> Self {
            let addr = |place: usize| VirtAddr(TEXT + 0x100 * place as u64);
            let symbols = NAMES.iter().enumerate().map(|(place, name)| (addr(place), (*name).to_owned()));
            let names = GuestNames::of_symbols(GuestSymbols::new(symbols));
            let task =
                |number: u64| Task { functions: vec![BEGIN], sp: STACKS + (number + 1) * STACK_BYTES - 64 };
            Self { calls: GuestCalls::new(names, 1), tasks: (0..2).map(task).collect(), current: 0, cycle: 0 }
        }

        /// An access, and the functions that it is found in, outermost first.
        fn access(&mut self, function: usize, addr: u64, size: u32, kind: AccessKind) -> Vec<String> {
            self.cycle += 3;
            let ip = VirtAddr(TEXT + 0x100 * function as u64 + 7);
            let access = Access { cycle: self.cycle, ip, addr: VirtAddr(addr), size, kind };
            let owner = Owner { process: None, name: "task".into() };
            let by = OwnedBy {
                cpu: 0,
                index: 0,
                owner: &owner,
                number: 0,
                image: ImageId::NONE,
                mode: GuestMode::Kernel,
            };
            let mut node = self.calls.access(by, &access);
            let mut found = Vec::new();
            while node != 0 {
                let call = &self.calls.tree.tree.nodes[node as usize];
                found.push(call.name.to_string());
                node = call.caller;
            }
            found.reverse();
            found
        }

        fn task(&mut self) -> &mut Task {
            &mut self.tasks[self.current]
        }

        fn expected(&self) -> Vec<String> {
            let names = self.tasks[self.current].functions.iter().map(|function| NAMES[*function].to_owned());
            std::iter::once("task".to_owned()).chain(names).collect()
        }

        fn innermost(&self) -> usize {
            *self.tasks[self.current].functions.last().expect("a task is in one at least")
        }

        /// Something that the innermost function does for itself.
        fn check(&mut self, addr: u64, size: u32, kind: AccessKind) -> Result<(), TestCaseError> {
            let found = self.access(self.innermost(), addr, size, kind);
            prop_assert_eq!(found, self.expected());
            Ok(())
        }

        /// The call itself: nothing is known of the callee yet.
        fn begin_call(&mut self) -> Result<(), TestCaseError> {
            self.task().sp -= 8;
            let sp = self.task().sp;
            self.check(sp, 8, AccessKind::Store)
        }

        fn call(&mut self, function: usize) -> Result<(), TestCaseError> {
            self.begin_call()?;
            self.task().functions.push(function);
            self.check(HEAP, 4, AccessKind::Load)
        }

        /// The return itself.
        fn begin_leave(&mut self, by_thunk: bool) -> Result<(), TestCaseError> {
            let sp = self.task().sp;
            let function = if by_thunk { THUNK } else { self.innermost() };
            let found = self.access(function, sp, 8, AccessKind::Load);
            prop_assert_eq!(found, self.expected());
            self.task().sp += 8;
            Ok(())
        }

        fn leave(&mut self, by_thunk: bool) -> Result<(), TestCaseError> {
            self.begin_leave(by_thunk)?;
            self.task().functions.pop();
            self.check(HEAP, 4, AccessKind::Load)
        }

        /// The processor has stored five words, and an instruction after it a sixth.
        fn interrupt(&mut self) -> Result<(), TestCaseError> {
            self.task().sp -= 48;
            self.task().functions.push(ENTRY);
            let sp = self.task().sp;
            self.check(sp, 8, AccessKind::Store)?;
            self.call(HANDLER)?;
            self.leave(false)?;
            self.task().sp += 48;
            self.task().functions.pop();
            Ok(())
        }

        fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
            let sp = self.task().sp;
            let is_deep = self.task().functions.len() > 1;
            match step {
                Step::Call(function) if function != self.innermost() => self.call(function),
                Step::Return { by_thunk } if is_deep => self.leave(by_thunk),
                Step::Access { offset, size, kind, is_local } => {
                    let base = if is_local { sp - 128 } else { HEAP };
                    self.check(base + 8 * offset, size, kind)?;
                    self.check(HEAP, 4, AccessKind::Load)
                }
                Step::Interrupt => {
                    self.interrupt()?;
                    self.check(HEAP, 4, AccessKind::Load)
                }
                Step::InterruptedCall(function) if function != self.innermost() => {
                    self.begin_call()?;
                    self.interrupt()?;
                    self.task().functions.push(function);
                    self.check(HEAP, 4, AccessKind::Load)
                }
                Step::InterruptedReturn if is_deep => {
                    self.begin_leave(false)?;
                    self.interrupt()?;
                    self.task().functions.pop();
                    self.check(HEAP, 4, AccessKind::Load)
                }
                _ => Ok(()),
            }
        }
    }

    proptest! {
        /// Whatever a task of the kernel calls and leaves, and whatever interrupts it, each access is found where it was made.
        #[test]
        fn callers_are_those_that_called(steps in prop::collection::vec(step(), 0..200)) {
            let mut machine = Machine::new();
            let sp = machine.task().sp;
            machine.check(sp - 16, 8, AccessKind::Load)?;
            for step in steps {
                machine.step(step)?;
            }
            let totals = machine.calls.tree.tree.totals();
            prop_assert_eq!(totals[0].instructions, machine.cycle);
        }
    }

    /// The function that changes stacks is called on one, and returns on the other.
    #[test]
    fn a_task_goes_on_where_it_was_left() -> Result<(), TestCaseError> {
        let mut machine = Machine::new();
        for task in 0..2 {
            machine.current = task;
            let sp = machine.task().sp;
            machine.check(sp - 16, 8, AccessKind::Load)?;
            machine.call(1 + task)?;
            machine.call(SWITCH)?;
        }
        for task in [0, 1, 0] {
            machine.current = task;
            let sp = machine.task().sp;
            machine.access(SWITCH, sp, 8, AccessKind::Load);
            machine.task().sp += 8;
            machine.task().functions.pop();
            machine.check(HEAP, 4, AccessKind::Load)?;
            machine.call(3)?;
            machine.leave(true)?;
            machine.call(SWITCH)?;
        }
        Ok(())
    }
}
