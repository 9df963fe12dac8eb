//! The call paths as folded stacks, one line per path: `outer;inner nanoseconds`, for flame graph tools.

use probes::joined::Profile;
use std::fmt::Write;

/// The lines; the figure is the time outside measured callees, in nanoseconds.
#[must_use]
pub fn stacks(profile: &Profile) -> String {
    let mut out = String::new();
    let mut names: Vec<String> = Vec::with_capacity(profile.paths.len());
    for node in &profile.paths {
        let own = profile.rows[node.row].function.replace(';', ":");
        let path = match node.parent {
            Some(parent) => format!("{};{own}", names[parent as usize]),
            None => own,
        };
        let ns = node.self_ns.round();
        if ns > 0.0 {
            let _ = writeln!(out, "{path} {ns}");
        }
        names.push(path);
    }
    out
}
