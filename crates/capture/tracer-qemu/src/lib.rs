//! The tracer of whole machines: a plugin that QEMU's translator loads (Simutrace, section 2.1: the integration layer).
//!
//! It sees every access of kernel, drivers and programs, with virtual and physical address, and the bytes
//! that were written. It writes records into the recorder's buffers ([`buffers::MachineRecord`]) and knows
//! nothing of files. Changes that QEMU does not show to plugins are found by comparing memory (`ram`). The
//! executing process is read from the guest kernel's own data (`kernel`, `task`). Start with `machine`.
//!
//! The crate has QEMU's licence, GPL-2.0-or-later, because a plugin is a part of the program that loads it; nothing depends on it.

mod api;
mod channel;
mod kernel;
mod machine;
mod modules;
mod options;
mod ram;
mod task;

use core::ffi::{CStr, c_char, c_int};

pub use api::{Info, qemu_plugin_version};

use api::{Api, PluginId};
use options::PluginOptions;

fn refuse(why: &str) -> c_int {
    eprintln!("memtap: {why}");
    1
}

/// QEMU's call when it has loaded us.
///
/// # Safety
/// Called by QEMU, with its own description and `argc` strings at `argv`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: PluginId,
    info: *const Info,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: QEMU's description, during the call.
    let info = unsafe { &*info };
    // SAFETY: a string of QEMU's.
    let target = unsafe { CStr::from_ptr(info.target_name) };
    if target != c"x86_64" && target != c"i386" {
        return refuse("the machine is not an x86 one");
    }
    if !info.system_emulation {
        return refuse("this QEMU runs one program and not a machine");
    }
    let arguments = (0..usize::try_from(argc).unwrap_or(0)).map(|index| {
        // SAFETY: below `argc`, so a string of QEMU's, which lives as long as the plugin.
        unsafe { CStr::from_ptr(*argv.add(index)) }.to_str().unwrap_or("")
    });
    let options = match PluginOptions::parse(arguments) {
        Ok(options) => options,
        Err(why) => return refuse(&why),
    };
    let Some(api) = Api::bind(info.version_cur) else {
        return refuse("this QEMU's plugin interface lacks functions that are needed");
    };
    let Some(pool) = channel::connect(&options.channel) else {
        return refuse("no recorder answers; start QEMU by memtap record --tracer qemu");
    };
    machine::start(id, api, info.version_cur, options, pool);
    0
}
