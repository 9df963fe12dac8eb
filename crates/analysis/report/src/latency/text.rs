//! The profile as a table for people.

use probes::joined::Profile;
use std::fmt::Write;

/// Nanoseconds with a unit, in at most seven characters.
#[must_use]
pub fn duration(ns: f64) -> String {
    match ns {
        _ if ns < 999.5 => format!("{ns:.0} ns"),
        _ if ns < 999.5e3 => format!("{:.1} us", ns / 1e3),
        _ if ns < 999.5e6 => format!("{:.1} ms", ns / 1e6),
        _ => format!("{:.2} s", ns / 1e9),
    }
}

/// The table, the functions without a probe by reason, and what is missing.
#[must_use]
pub fn table(profile: &Profile) -> String {
    let mut out = String::new();
    let what = profile.sample.map_or("every call".to_owned(), |n| format!("{n} samples an epoch"));
    let _ = writeln!(
        out,
        "{}: {} in {} process{}, {} probes, {what}; the probes took {}",
        profile.program,
        duration(profile.elapsed_ns as f64),
        profile.processes,
        if profile.processes == 1 { "" } else { "es" },
        profile.probes,
        duration(profile.probes_ns)
    );
    let _ = writeln!(
        out,
        "{:>12} {:>8} {:>9} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  function",
        "calls", "+-", "sampled", "rate/s", "mean", "p50", "p90", "p99", "p99.9", "max", "total", "self"
    );
    let mut is_unknown = false;
    let mut known = |ns: f64, error_ns: f64| {
        let is_known = ns == 0.0 && error_ns == 0.0 || error_ns < ns;
        is_unknown |= !is_known;
        if is_known { duration(ns) } else { "?".to_owned() }
    };
    for row in &profile.rows {
        let [p50, p90, p99, p999] = row.percentiles_ns.map(duration);
        let error =
            if row.calls_error > 0.0 { format!("{:.0}", row.calls_error) } else { "exact".to_owned() };
        let place = match (&row.file, row.line) {
            (Some(file), Some(line)) => format!("  {file}:{line}"),
            _ => String::new(),
        };
        let _ = writeln!(
            out,
            "{:>12} {:>8} {:>9} {:>10.0} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  {}{place}",
            row.calls,
            error,
            row.sampled,
            row.rate_per_s,
            duration(row.mean_ns),
            p50,
            p90,
            p99,
            p999,
            duration(row.max_ns),
            known(row.total_ns, row.total_error_ns),
            known(row.self_ns, row.self_error_ns),
            row.function
        );
    }
    if is_unknown {
        let _ = writeln!(
            out,
            "?: not enough samples, or calls so short that their probes take more (--json has figures and errors)"
        );
    }
    missing(profile, &mut out);
    out
}

fn missing(profile: &Profile, out: &mut String) {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for u in &profile.unprobed {
        match reasons.iter_mut().find(|(reason, _)| *reason == u.reason) {
            Some((_, symbols)) => symbols.push(&u.symbol),
            None => reasons.push((&u.reason, vec![&u.symbol])),
        }
    }
    for (reason, symbols) in reasons {
        let shown: Vec<String> = symbols.iter().take(5).map(|s| probes::name::demangle(s)).collect();
        let more = if symbols.len() > 5 { ", ..." } else { "" };
        let _ = writeln!(out, "not probed: {} because {reason}: {}{more}", symbols.len(), shown.join(", "));
    }
    let gaps = &profile.gaps;
    for (count, what) in [
        (
            gaps.unfinished,
            "calls left without returning (exceptions, longjmp, ended threads): measured until that was noticed",
        ),
        (gaps.too_deep, "calls too deep for the shadow stack: counted, not measured"),
        (gaps.foreign_stack, "calls on a signal stack or coroutine: counted, not measured"),
        (gaps.paths_joined, "calls whose path found no room: booked on their caller's path"),
        (gaps.events_overwritten, "calls older than the timeline keeps"),
    ] {
        if count > 0 {
            let _ = writeln!(out, "gap: {count} {what}");
        }
    }
}
