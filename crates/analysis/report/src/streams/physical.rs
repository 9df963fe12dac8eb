//! The accesses of a machine with all that is known of each: cycle, vCPU, mode, kind,
//! size, virtual and physical address, instruction, function of the kernel, data.

use std::fmt::Write as _;
use std::io::Write;

use analysis::{Session, machine};
use memref::{Access, VirtAddr};
use serde_json::{Value, json};
use trace_format::ThreadRecord;

use super::StreamForm;
use crate::Error;
use crate::export::Selection;

pub(super) fn write(
    session: &Session,
    record: &ThreadRecord,
    selection: &Selection,
    form: StreamForm,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let numbers = selection.entries.clone().unwrap_or(0..u64::MAX);
    let cycles = selection.cycles.clone().unwrap_or(0..u64::MAX);
    let symbols = machine::GuestSymbols::of(session.trace())?;
    // Asked for only where it matters: it takes reading the trace from its start.
    let mut kernel_since = None;
    let mut written = Ok(());
    machine::walk_data(session.trace(), record.thread, numbers, |access, places, data| {
        let end = VirtAddr(access.addr.0.saturating_add(access.size.into()));
        let outside =
            selection.addresses.as_ref().is_some_and(|part| access.addr >= part.end || end <= part.start);
        if access.cycle < cycles.start || outside {
            return true;
        }
        if access.cycle >= cycles.end {
            return false;
        }
        let mode = if access.ip.0 >> 63 != 0 {
            machine::GuestMode::Kernel
        } else {
            let since =
                kernel_since.get_or_insert_with(|| machine::kernel_since(session.trace(), record.thread));
            match since {
                Ok(since) if access.cycle >= *since => machine::GuestMode::User,
                _ => machine::GuestMode::Boot,
            }
        };
        let entry = PhysicalAccess {
            access,
            cpu: record.tid,
            mode,
            physical: places.address(access),
            function: symbols.name(access.ip),
            data,
        };
        written = match form {
            StreamForm::Text => writeln!(out, "{}", entry.text()),
            StreamForm::JsonLines => writeln!(out, "{}", entry.json()),
        };
        written.is_ok()
    })?;
    if let Some(Err(error)) = kernel_since {
        return Err(error.into());
    }
    Ok(written?)
}

/// An access of a vCPU.
struct PhysicalAccess<'a> {
    access: &'a Access,
    cpu: u32,
    mode: machine::GuestMode,
    /// `None` for a device, or where the page was not known.
    physical: Option<u64>,
    function: Option<&'a str>,
    data: Option<&'a [u8]>,
}

impl PhysicalAccess<'_> {
    /// The bytes as a number, in hexadecimal.
    fn digits(&self) -> Option<String> {
        self.data.map(|data| {
            data.iter().rev().fold(String::new(), |mut digits, byte| {
                // Writing to a string can't fail.
                let _ = write!(digits, "{byte:02x}");
                digits
            })
        })
    }

    fn text(&self) -> String {
        let Access { cycle, addr, size, kind, ip } = *self.access;
        let physical = self.physical.map_or_else(|| "-".to_owned(), |address| format!("{address:#x}"));
        let data = self.digits().map_or_else(String::new, |digits| format!(" data {digits}"));
        format!(
            "{cycle} cpu {} {} {} {size} {addr:#x} physical {physical} ip {ip:#x} {}{data}",
            self.cpu,
            self.mode.name(),
            kind.name(),
            self.function.unwrap_or("-")
        )
    }

    fn json(&self) -> Value {
        let Access { cycle, addr, size, kind, ip } = *self.access;
        json!({
            "type": kind.name(), "cycle": cycle, "cpu": self.cpu, "mode": self.mode.name(), "size": size,
            "addr": format!("{addr:#x}"), "physical": self.physical.map(|address| format!("{address:#x}")),
            "ip": format!("{ip:#x}"), "function": self.function,
            "data": self.digits().map(|digits| format!("0x{digits}")),
        })
    }
}
