//! Events as JSON, one object per line, with all that is known of each event.

use std::io::Write;

use analysis::Moment;
use memref::{Access, Event, MarkerKind, VirtAddr};
use serde_json::{Value, json};

use super::names::{code_name, region_name, variable_name};
use super::{AccessBytes, EventOrder, Exporter, Needs};
use crate::Error;

/// An object a line.
#[derive(Debug, Default)]
pub struct JsonLines;

fn put(out: &mut dyn Write, object: &Value) -> Result<(), Error> {
    Ok(writeln!(out, "{object}")?)
}

/// Bytes in hexadecimal as a number: the first byte last.
fn number(bytes: &[u8]) -> String {
    bytes.iter().rev().fold("0x".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

fn access(at: &mut Moment<'_>, access: &Access, data: Option<&[u8]>) -> Value {
    let resolver = &mut *at.resolver;
    let name = resolver.resolve_data(access.addr);
    let variable = resolver.names().variable(name.variable);
    let path = resolver.field_path(access.addr, access.size);
    let code = resolver.code_name(access.ip);
    let line = code.as_ref().and_then(|code| code.line().map(|(file, line)| (file.to_owned(), line)));
    let mut object = json!({
        "type": access.kind.name(),
        "thread": at.thread.0,
        "process": resolver.process().0,
        "cycle": access.cycle,
        "ip": format!("{:#x}", access.ip),
        "addr": format!("{:#x}", access.addr),
        "size": access.size,
        "variable": variable.as_ref().map(|variable| &*variable.name),
        "offset": name.offset,
        "field": path.as_deref(),
        "region": region_name(resolver, access.addr),
        "code": code.as_ref().map(|code| code.to_string()),
        "file": line.as_ref().map(|(file, _)| file),
        "line": line.as_ref().and_then(|(_, line)| *line),
    });
    if let (Some(data), Some(object)) = (data, object.as_object_mut()) {
        object.insert("data".into(), number(data).into());
    }
    object
}

impl Exporter for JsonLines {
    fn needs(&self) -> Needs {
        Needs { events: EventOrder::Session, bytes: true, ..Needs::default() }
    }

    fn accesses(
        &mut self,
        at: &mut Moment<'_>,
        accesses: &[Access],
        bytes: &mut AccessBytes,
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        for one in accesses {
            let data = bytes.next(at.thread)?;
            put(out, &access(at, one, data.as_deref()))?;
        }
        Ok(())
    }

    fn event(
        &mut self,
        at: &mut Moment<'_>,
        event: &Event<String>,
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        let (thread, process) = (at.thread.0, at.process.0);
        let shown = |addr: VirtAddr| (addr != VirtAddr(0)).then(|| format!("{addr:#x}"));
        let object = match event {
            Event::Block(block) => {
                let mut variable = |addr| shown(addr).and_then(|_| variable_name(at.resolver, addr));
                let (dst_variable, src_variable) = (variable(block.dst), variable(block.src));
                json!({
                    "type": block.kind.name(),
                    "thread": thread,
                    "process": at.resolver.process().0,
                    "cycle": block.cycle,
                    "ip": format!("{:#x}", block.ip),
                    "function": block.function.name(),
                    "dst": shown(block.dst),
                    "src": shown(block.src),
                    "dst_variable": dst_variable,
                    "src_variable": src_variable,
                    "size": block.len,
                    "code": code_name(at.resolver, block.ip),
                })
            }
            Event::Allocation(event) => json!({
                "type": event.kind.name(),
                "thread": thread,
                "process": at.resolver.process().0,
                "cycle": event.cycle,
                "order": event.order,
                "ip": format!("{:#x}", event.ip),
                "function": event.function.name(),
                "addr": format!("{:#x}", event.addr),
                "size": event.len,
                "old_addr": shown(event.old_addr),
                "variable": variable_name(at.resolver, event.addr).unwrap_or_default(),
                "code": code_name(at.resolver, event.ip),
            }),
            Event::Marker(marker) => {
                let kind = match marker.kind {
                    MarkerKind::Start => "start",
                    MarkerKind::Stop => "stop",
                    MarkerKind::Mark => "mark",
                };
                json!({
                    "type": kind, "thread": thread, "process": process, "cycle": marker.cycle,
                    "order": marker.order, "ip": format!("{:#x}", marker.ip), "name": marker.name,
                    "code": code_name(at.resolver, marker.ip),
                })
            }
            Event::Gap(gap) => json!({
                "type": "gap", "thread": thread, "process": process, "cycle": gap.cycle,
                "count": gap.count, "reason": gap.reason.name(), "addr": format!("{:#x}", gap.addr),
            }),
            Event::Sync(sync) => json!({
                "type": "sync", "thread": thread, "process": process, "cycle": sync.cycle,
                "order": sync.order, "ip": format!("{:#x}", sync.ip), "code": code_name(at.resolver, sync.ip),
                "kind": sync.kind.name(), "function": sync.function.name(),
                "object": format!("{:#x}", sync.object), "value": sync.value,
            }),
            // Order marks are how the replay goes on; accesses come by themselves.
            Event::Order(_) | Event::Access(_) => return Ok(()),
        };
        put(out, &object)
    }
}
